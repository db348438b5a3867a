"""Topics made, changed and deleted from the dashboard: shown first, done, and how to take it back."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from rmqadmin.core.topic_and_group_configs import read_topic
from rmqadmin.tui.dialogs.change import ChangeDialog
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import ConnectError
from rmqproto.names import ORDER_TOPIC_NAMESPACE
from tests.rmqadmin.tui.conftest import BROKER, World
from tests.rmqadmin.tui.forms import close, confirm, fill, name_line, set_field, undo_text
from tests.rmqadmin.tui.opened import Driver, at_row, drive, put_cursor

SMALL = (80, 24)


def config_of(world: World, topic: str) -> TopicConfig | None:
    return read_topic(world.admin, world.server.broker_addr, topic)


@pytest.mark.slow
@pytest.mark.dashboard(size=SMALL)
async def test_a_topic_is_made_changed_and_deleted(driver: Driver, world: World, state_home: Path) -> None:
    topic = f"{world.topic}-made"
    await at_row(driver, "t", world.topic, "n")
    await fill(driver, "topic", topic)
    await driver.until_shown("write_queue_nums", "none", "Enter here does it")
    assert config_of(world, topic) is None
    await fill(driver, "perm", "X!")
    await driver.until_shown("topicPermission value: X! is invalid.")
    assert not name_line(driver).display
    await set_field(driver, "perm", "rw")
    await fill(driver, "read", "--8")
    await driver.until_shown("read queues: --8 is not a number")
    await fill(driver, "read", "-8")
    await driver.until_shown("read queues: -8 must be 0 or more")
    await set_field(driver, "read", "8")
    await set_field(driver, "type", "FIFO")
    await driver.until_shown("Enter here does it; page down shows all 7 rows")
    await driver.press("pagedown")
    await driver.until_shown("message.type")
    await confirm(driver, "")
    await driver.until_shown("to undo this: rmqadmin apply -f")
    made = config_of(world, topic)
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (8, 8, 6)
    assert made.attributes == {"message.type": "FIFO"}
    assert "absent: true" in undo_text(state_home, "updateTopic")
    await close(driver)

    await put_cursor(driver, topic)
    await driver.press("e")
    await fill(driver, "attributes", "-message.type")  # counts, though the field beside it still says FIFO
    await driver.until_shown("change", "message.type", f"Type {topic} to go on")
    await set_field(driver, "attributes", "")
    await fill(driver, "write", "12")
    await driver.until_shown("change", "write_queue_nums", f"Type {topic} to go on")
    assert "message.type  " not in driver.text
    dialog = driver.app.screen
    assert isinstance(dialog, ChangeDialog)
    dialog.query_one("#field-write", Input).value = "13"
    await driver.until(lambda: not name_line(driver).display)
    await fill(driver, "write", "12")
    await driver.until_shown(f"Type {topic} to go on")
    await confirm(driver, topic)
    await driver.until(lambda: (found := config_of(world, topic)) is not None and found.write_queue_nums == 12)
    await driver.until_shown("to undo this")
    await close(driver)

    addr = world.server.broker_addr
    world.admin.send_message(addr, MessageQueue(topic, BROKER, 0), Message(topic, b"x"))
    world.admin.update_consumer_offset(addr, world.group, topic, 0, 0)
    await put_cursor(driver, topic)
    await driver.press("ctrl+d")
    await driver.until_shown("Delete the topic", "brings them back", f"Type {topic} to go on")
    await driver.until_shown(f"1 message would be lost; read by {world.group}")
    await confirm(driver, "no")
    await driver.until_shown("nothing was changed: that is not the name to type")
    await confirm(driver, topic)
    await driver.until_shown("to undo this")
    assert config_of(world, topic) is None
    assert "writeQueueNums: 12" in undo_text(state_home, "deleteTopic")
    await close(driver)
    await driver.until(lambda: topic not in driver.text)


@pytest.mark.slow
def test_name_servers_are_told_of_an_ordered_topic_and_where_that_fails_what_was_done_is_shown_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"{world.topic}-made"

    async def make(driver: Driver) -> None:
        await at_row(driver, "t", world.topic, "n")
        await set_field(driver, "order", True)
        await fill(driver, "topic", topic)
        await confirm(driver, "")

    async def told(driver: Driver) -> None:
        await make(driver)
        await driver.until_shown("to undo this")
        await driver.press("pagedown", "pagedown", "pagedown")  # the path of the undo file may take some lines
        await driver.until_shown("broker-a:8")
        assert world.admin.kv_value(ORDER_TOPIC_NAMESPACE, topic) == "broker-a:8"

    async def not_told(driver: Driver) -> None:
        monkeypatch.setattr(AdminClient, "put_kv", refuse)
        await make(driver)
        await driver.until_shown("1 of 2 failed: away", "to undo this", "✔ done")

    def refuse(*_: object) -> None:
        raise ConnectError("away", address="192.0.2.1:9876")

    for test in (told, not_told):
        drive(world.make_client, test, size=SMALL)
        world.admin.delete_topic_in_broker(world.server.broker_addr, topic)
