"""The last change is undone with `u`: from its outcome or from any screen, after a preview that says what has moved
since."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rmqclient.admin import AdminClient
from rmqproto.errors import RequestTimeoutError
from tests.rmqadmin.tui.conftest import QUEUE_COUNT, World
from tests.rmqadmin.tui.forms import close, confirm, fill, name_line
from tests.rmqadmin.tui.opened import Driver, at_row, drive
from tests.rmqadmin.tui.test_topic_changes import config_of

SMALL = (80, 24)


def offsets(world: World) -> list[int | None]:
    addr = world.server.broker_addr
    return [world.admin.consumer_offset(addr, world.group, world.topic, queue) for queue in range(QUEUE_COUNT)]


@pytest.mark.slow
@pytest.mark.dashboard(size=SMALL)
async def test_a_reset_is_undone_from_its_outcome_and_again_from_a_screen_that_says_what_would_come_again(
    driver: Driver, world: World, state_home: Path
) -> None:
    await at_row(driver, "g", world.group, "u")
    assert "Undo" not in driver.text
    await driver.press("enter", "ctrl+r")
    await fill(driver, "to", "end")
    await driver.until_shown("new offset", f"Type {world.group} to go on")
    assert offsets(world) == [0] * QUEUE_COUNT
    await confirm(driver, world.group)
    await driver.until_shown("✔ done", "u undoes it", "u Undo", "to undo this: rmqadmin resetOffset --undo")
    assert offsets(world) == [1] * QUEUE_COUNT
    await driver.press("u")
    await driver.until_shown("Undo: Reset the offsets", "0 before, 4 after", f"Type {world.group} to go on")
    assert "page down shows" not in driver.text, "all rows are in view"
    await confirm(driver, "no")
    await driver.until_shown("nothing was changed: that is not the name to type")
    await confirm(driver, world.group)
    await driver.until_shown("✔ done", "u undoes it")
    assert offsets(world) == [0] * QUEUE_COUNT
    await driver.press("u")  # undoes that
    await driver.until_shown("4 before, 0 after")
    await confirm(driver, world.group)
    await driver.until_shown("✔ done")
    await close(driver)

    world.send(b"later")
    addr = world.server.broker_addr
    world.admin.reset_offset(addr, world.topic, world.group, -1, queue_id=0, queue_offset=2)
    await driver.press("h", "u")
    await driver.until_shown(f"{world.group} has passed the old offset: 1 message comes again")


@pytest.mark.slow
@pytest.mark.dashboard(size=SMALL)
async def test_a_change_of_a_topic_is_undone_and_what_others_changed_since_is_said(
    driver: Driver, world: World, state_home: Path
) -> None:
    await at_row(driver, "t", world.topic, "e")
    await fill(driver, "write", "12")
    await confirm(driver, world.topic)
    await driver.until_shown("✔ done", "u undoes it")
    await close(driver)
    before = config_of(world, world.topic)
    assert before is not None
    world.admin.create_topic(world.server.broker_addr, msgspec.structs.replace(before, write_queue_nums=16))
    await driver.press("u")
    await driver.until_shown("changed since on", "write_queue_nums 12 -> 16", f"Type {world.topic} to go on")
    await confirm(driver, world.topic)
    await driver.until_shown("✔ done")
    config = config_of(world, world.topic)
    assert config is not None
    assert config.write_queue_nums == QUEUE_COUNT


@pytest.mark.slow
def test_a_change_that_got_no_answer_is_unknown_and_is_not_green(
    world: World, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise RequestTimeoutError("no answer")

    async def test(driver: Driver) -> None:
        await at_row(driver, "t", world.topic, "n")
        await fill(driver, "topic", topic)
        monkeypatch.setattr(AdminClient, "create_topic", silent)
        await confirm(driver, "")
        await driver.until_shown("it is unknown whether this was done: no answer", "this undoes it: rmqadmin apply")
        assert "✔" not in driver.text
        assert name_line(driver).display

    topic = f"{world.topic}-made"
    drive(world.make_client, test, size=SMALL)
