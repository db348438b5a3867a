"""Dead letters of a real broker: how many there are, since when, and their contents, shown literally."""

from __future__ import annotations

import pytest

from rmqproto.bodies.base import MessageQueue
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.opened import Driver, at_row, drive, put_cursor
from tests.support.servers import Fresh

MARKUP = "[/red]"


async def test_depth_and_age_of_each_group(driver: Driver, world: World) -> None:
    await at_row(driver, "d", world.group)
    line = lambda: next(line for line in driver.lines if world.group in line)  # noqa: E731
    await driver.until(lambda: line().split()[1:3] == ["1", "1"])
    assert line().split()[3] == "now" or line().split()[3].endswith("s"), "the oldest is as old as this test"


@pytest.mark.slow
async def test_key_and_body_that_look_like_markup_are_shown_literally(driver: Driver, world: World) -> None:
    """Textual parses strings as markup. A stray closing tag in a body has ended other dashboards with an exception."""
    world.send(MARKUP.encode() + b"\x1b[2J [b]bold[/b]", keys=MARKUP, tag="[$x]", queue_id=1)
    world.make_dead_letter(1, 1)
    await at_row(driver, "d", world.group, "enter")
    await driver.until_shown(MARKUP, "[$x]", "2 messages")
    await driver.press("enter")
    await driver.until_shown(f"keys {MARKUP}", f"{MARKUP}\\x1b[2J [b]bold[/b]")
    await driver.press("3")
    await driver.until_shown("5b 2f 72 65 64 5d 1b 5b", "|[/red].[2J [b]bo|")
    await driver.press("4")
    await driver.until_shown("TAGS", "[$x]")


@pytest.mark.slow
def test_reading_dead_letters_moves_no_offset(world: World) -> None:
    dlq = f"%DLQ%{world.group}"

    async def test(driver: Driver) -> None:
        await at_row(driver, "d", world.group, "enter")
        await driver.until_shown("1 message of 1")

    drive(world.make_client, test)
    offsets = world.admin.all_consumer_offsets(world.server.broker_addr).offset_table
    assert not [name for name in offsets if name.startswith(dlq)]
    assert MessageQueue(dlq, "broker-a", 0) in world.admin.topic_stats(world.server.broker_addr, dlq).offset_table


@pytest.mark.slow
async def test_older_windows(driver: Driver, world: World, fresh: Fresh) -> None:
    """A queue longer than a window is shown window by window, and the screen always shows the total."""
    for number in range(205):
        world.send(b"x", keys=f"many-{number}", queue_id=3)
    await at_row(driver, "t", world.topic, "enter")
    await put_cursor(driver, "broker-a/3")
    await driver.press("enter")
    await driver.until_shown("200 messages of 206", "many-204")
    await driver.press("left_square_bracket")
    await driver.until_shown("6 messages of 206 behind 200 newer ones", "key-3")
    await driver.press("right_square_bracket")
    await driver.until_shown("200 messages of 206", "many-204")
