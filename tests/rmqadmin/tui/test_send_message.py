"""A message sent from the dashboard: shown first, then sent once, to the queue that was shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.base import MessageQueue
from tests.rmqadmin.tui.conftest import BROKER, QUEUE_COUNT, World
from tests.rmqadmin.tui.forms import close, confirm, fill, name_line, set_field
from tests.rmqadmin.tui.opened import Driver, at_row

BODY = "  with blanks at both ends "


def counts(world: World) -> list[int]:
    addr = world.server.broker_addr
    return [world.admin.max_offset(addr, world.topic, queue_id) for queue_id in range(QUEUE_COUNT)]


@pytest.mark.slow
async def test_a_message_is_sent_to_the_queue_that_the_preview_shows(
    driver: Driver, world: World, tmp_path: Path
) -> None:
    path = tmp_path / "body.bin"
    path.write_bytes(b"\0two\nlines\n")
    await at_row(driver, "t", world.topic, "w")
    await fill(driver, "queue", f"{BROKER}/x")
    await driver.until_shown("body is missing")
    await set_field(driver, "body", BODY)
    await fill(driver, "queue", f"{BROKER}/x")
    await driver.until_shown(f"queue: {BROKER}/x must be BROKER or BROKER/QUEUE_ID")
    await set_field(driver, "tag", "paid")
    await set_field(driver, "keys", "K-1 K-2")
    await fill(driver, "properties", "trace")
    await driver.until_shown("properties: trace must be NAME=VALUE")
    await fill(driver, "properties", "trace=on 'note=two words =")
    await driver.until_shown("the quote ' is not closed")
    await set_field(driver, "properties", "trace=on 'note=two words ='")
    await fill(driver, "queue", f"{BROKER}/2")
    await driver.until_shown("would send 27 bytes", "Enter here does it")
    assert counts(world) == [1, 1, 1, 1]
    await confirm(driver, "")
    await driver.until_shown("sent 27 bytes", "SEND_OK")
    assert counts(world) == [1, 1, 2, 1]
    (sent,) = world.admin.pull_message(world.server.broker_addr, MessageQueue(world.topic, BROKER, 2), 1).messages
    assert sent.body == BODY.encode()
    assert (sent.properties["TAGS"], sent.properties["KEYS"]) == ("paid", "K-1 K-2")
    assert (sent.properties["trace"], sent.properties["note"]) == ("on", "two words =")
    assert not name_line(driver).display, "one enter more sends nothing"
    await close(driver)

    await driver.press("enter")
    await driver.until_shown("4 queues")
    await driver.press("w")
    await fill(driver, "body", f"@{path}")
    await driver.until_shown("would send 11 bytes", "Enter here does it")
    shown = driver.app.screen.query_one("#preview", RowTable).part("0").queue_id
    before = counts(world)
    await confirm(driver, "")
    await driver.until_shown("SEND_OK")
    assert [then - now for then, now in zip(counts(world), before, strict=True)] == [
        int(queue_id == shown) for queue_id in range(QUEUE_COUNT)
    ]


@pytest.mark.slow
async def test_a_message_is_delayed(driver: Driver, world: World) -> None:
    await at_row(driver, "t", world.topic, "w")
    await set_field(driver, "body", "later")
    await fill(driver, "delay", "soon")
    await driver.until_shown("delay: soon must be a duration")
    await fill(driver, "delay", "2h")
    await driver.until_shown("would send 5 bytes", "delivered in 2h")
    await confirm(driver, "")
    await driver.until_shown("SEND_OK")
    assert counts(world) == [1, 1, 1, 1], "in no queue of the topic yet"
