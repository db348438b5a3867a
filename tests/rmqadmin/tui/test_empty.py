"""Where there is nothing, the dashboard says so: an empty table might still be waiting for an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.tui.opened import Driver, at_row, clients_of, drive, put_cursor
from tests.support import servers
from tests.support.servers import Server


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Server]:
    with servers.standalone(tmp_path) as server:
        yield server


@pytest.mark.slow
def test_every_empty_table_says_that_there_is_nothing(bare: Server) -> None:
    async def test(driver: Driver) -> None:
        for key, words in (
            ("d", "no dead letters"),
            ("g", "only RocketMQ's own: z shows them"),
            ("t", "only RocketMQ's own: z shows them"),
        ):
            await driver.press(key)
            await driver.until_shown(words)
        with AdminClient(bare.namesrv_addr) as admin:
            admin.create_topic(bare.broker_addr, TopicConfig(topic_name="orders"))
            admin.create_group(bare.broker_addr, SubscriptionGroupConfig(group_name="billing"))
        await put_cursor(driver, "orders")
        await driver.press("enter", "m")
        await driver.until_shown("no messages")
        await driver.press("c")
        await driver.until_shown("active")
        await driver.press("p")
        await driver.until_shown("no users, and nothing is granted")
        await at_row(driver, "g", "billing", "enter", "3")
        await driver.until_shown("no queue has an owner", "no owners")
        await driver.press("s")
        await driver.until_shown("an id, a key, tag:T")
        await driver.enter("orders", into="topic")
        await driver.enter("tag:x", into="wanted")
        await driver.until_shown("nothing matches")

    drive(clients_of(bare.namesrv_addr), test)


@pytest.mark.slow
def test_a_key_that_needs_a_row_tells_why_there_is_none(bare: Server, said: list[str]) -> None:
    """Some of them did nothing, such as a on a broker without users."""

    async def test(driver: Driver) -> None:
        await at_row(driver, "c", "broker-a/0", "p")
        await driver.until_shown("no users, and nothing is granted")
        await tells(driver, ["p", "e", "ctrl+x", "ctrl+d"], "no users, and nothing is granted")
        with AdminClient(bare.namesrv_addr) as admin:
            admin.create_topic(bare.broker_addr, TopicConfig(topic_name="orders"))
        await at_row(driver, "t", "orders", "enter", "m")
        await driver.until_shown("no messages")
        await tells(driver, ["x"], "no messages")
        await driver.press("t", "t", "slash")
        await driver.type("nowhere", into="filter")
        await driver.until_shown("no row matches the filter")
        await driver.press("enter")
        await tells(driver, ["p", "e", "w", "m", "ctrl+d", "l"], "no row matches the filter")
        await driver.press("g")
        await driver.until_shown("only RocketMQ's own: z shows them")
        await tells(driver, ["e", "ctrl+d", "l"], "only RocketMQ's own: z shows them")

    async def tells(driver: Driver, keys: list[str], text: str) -> None:
        for key in keys:
            said.clear()
            await driver.press(key)
            assert said == [text], key

    drive(clients_of(bare.namesrv_addr), test)
