"""Messages looked up by key and by both ids."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmqadmin.lookup import FoundMessage
from rmqproto.bodies import MessageQueue
from tests.rmqadmin.tui.conftest import BROKER, World
from tests.rmqadmin.tui.opened import Driver, drive


def found(world: World) -> FoundMessage:
    addr = world.server.broker_addr
    stored = world.admin.pull_message(addr, MessageQueue(world.topic, BROKER, 1), 0, max_count=1).messages[0]
    return FoundMessage(stored, BROKER, addr, stored.properties)


@pytest.mark.parametrize(
    "wanted",
    [lambda one: "key-1", lambda one: one.message_id, lambda one: one.stored.message_id],
    ids=["key", "unique key", "offset id"],
)
def test_search(world: World, wanted: Callable[[FoundMessage], str]) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("s")
        await driver.type(world.topic)
        await driver.press("enter")
        await driver.type(wanted(found(world)))
        await driver.press("enter")
        await driver.until_shown("1 message of", "key-1")
        await driver.press("enter")
        await driver.until_shown("Search › key-1", "n 1")

    drive(world.make_client, test)


def test_an_unknown_topic_is_said(world: World) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("s")
        await driver.type("no-such-topic")
        await driver.press("enter")
        await driver.type("x")
        await driver.press("enter")
        await driver.until_shown("No topic route info in name server")

    drive(world.make_client, test)


def test_letters_that_are_keys_elsewhere_go_into_the_question(world: World) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("s")
        await driver.type("ctgdq")
        await driver.until_shown("topic ctgdq")
        assert driver.app.current_mode == "search"

    drive(world.make_client, test)
