"""Topics made, changed and deleted from the dashboard: shown first, done, and how to take it back."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from rmqadmin.core.topics.topic_config import read_topic
from rmqadmin.tui.dialogs.change import ChangeScreen
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.forms import close, confirm, fill, name_line, undo_text
from tests.rmqadmin.tui.opened import Driver, drive, put_cursor

SMALL = (80, 24)


def config_of(world: World, topic: str) -> TopicConfig | None:
    return read_topic(world.admin, world.server.broker_addr, topic)


def test_a_topic_is_made_changed_and_deleted(world: World, state_home: Path) -> None:
    topic = f"{world.topic}-made"

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, world.topic)
        await driver.press("n")
        await fill(driver, "topic", topic)
        await driver.until_shown("write_queue_nums", "none", "Enter here does it")
        assert config_of(world, topic) is None
        await fill(driver, "perm", "X!")
        await driver.until_shown("topicPermission value: X! is invalid.")
        assert not name_line(driver).display
        await fill(driver, "perm", "rw")
        await driver.until_shown("Enter here does it")
        await confirm(driver, "")
        await driver.until_shown("to undo this: rmqadmin apply -f")
        made = config_of(world, topic)
        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (8, 8, 6)
        assert "absent: true" in undo_text(state_home, "updateTopic")
        await close(driver)

        await put_cursor(driver, topic)
        await driver.press("e")
        await fill(driver, "write", "12")
        await driver.until_shown("change", "write_queue_nums", f"Type {topic} to go on")
        dialog = driver.app.screen
        assert isinstance(dialog, ChangeScreen)
        dialog.query_one("#field-write", Input).value = "13"
        await driver.until(lambda: not name_line(driver).display)
        await fill(driver, "write", "12")
        await driver.until_shown(f"Type {topic} to go on")
        await confirm(driver, topic)
        await driver.until(lambda: (found := config_of(world, topic)) is not None and found.write_queue_nums == 12)
        await driver.until_shown("to undo this")
        await close(driver)

        await put_cursor(driver, topic)
        await driver.press("ctrl+d")
        await driver.until_shown("Delete the topic", "brings them back", f"Type {topic} to go on")
        await confirm(driver, "no")
        await driver.until_shown("nothing was changed: the name is another")
        await confirm(driver, topic)
        await driver.until_shown("to undo this")
        assert config_of(world, topic) is None
        assert "writeQueueNums: 12" in undo_text(state_home, "deleteTopic")
        await close(driver)
        await driver.until(lambda: topic not in driver.text)

    drive(world.make_client, test, size=SMALL)
