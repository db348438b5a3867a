"""Read-only mode is shown, hides changes, and is enforced below the screens, where none can forget it."""

from __future__ import annotations

import pytest

from rmqadmin.tui.dialogs.topics import topic_perm
from rmqadmin.tui.screens.brokers import BrokersScreen
from rmqadmin.tui.screens.group import GroupScreen
from rmqadmin.tui.screens.messages import MessagesScreen
from rmqadmin.tui.screens.topics import TopicsScreen
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import UsageError
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.opened import Driver, at_row, drive


@pytest.mark.dashboard(read_only=True)
async def test_keys_that_change_are_hidden_and_do_nothing(driver: Driver, world: World) -> None:
    await at_row(driver, "t", world.topic)
    assert "read-only" in driver.text
    assert "p Perm" not in driver.text
    assert "w Send" not in driver.text
    await driver.press("p", "w")
    assert isinstance(driver.app.screen, TopicsScreen)


@pytest.mark.slow
@pytest.mark.dashboard(read_only=True, size=(234, 30))
async def test_no_key_that_changes_is_offered_on_any_screen(driver: Driver, world: World) -> None:
    await at_row(driver, "c", "broker-a/0")
    await driver.until_shown("read-only", "3 Topics")
    assert "Write perm" not in driver.text
    await driver.press("ctrl+e")
    assert isinstance(driver.app.screen, BrokersScreen)
    await at_row(driver, "g", world.group, "enter")
    await driver.until_shown("read-only", "l Plot", "4 queues")
    assert "^r Reset" not in driver.text
    await driver.press("ctrl+r")
    assert isinstance(driver.app.screen, GroupScreen)
    await at_row(driver, "d", world.group, "enter")
    await driver.until_shown("1 message of 1", "Export")
    assert "Redrive" not in driver.text
    await driver.press("R")
    assert isinstance(driver.app.screen, MessagesScreen)


@pytest.mark.slow
@pytest.mark.dashboard(read_only=True)
async def test_a_dialog_opened_all_the_same_is_refused_by_the_client(driver: Driver, world: World) -> None:
    await at_row(driver, "t", world.topic)
    screen = driver.app.screen
    assert isinstance(screen, TopicsScreen)
    driver.app.push_screen(topic_perm(screen.table.part(world.topic)))
    await driver.until_shown("keep")
    await driver.press("down")
    await driver.until_shown("RW (6)  R (4)")
    await driver.press("enter")
    await driver.enter(world.topic, into="name")
    await driver.until_shown("this client is read-only")
    assert world.perm == 6


@pytest.mark.dashboard(read_only=True)
async def test_no_client_of_a_read_only_dashboard_can_change_anything(driver: Driver, world: World) -> None:
    with driver.app.make_client(read_only=False) as client, pytest.raises(UsageError, match="read-only"):
        client.create_topic(world.server.broker_addr, TopicConfig(topic_name="x"))


async def test_what_refreshes_can_change_nothing_in_any_mode(driver: Driver, world: World) -> None:
    await driver.press("c")
    await driver.until_shown("broker-a")
    screen = driver.app.screen
    assert all(feed.client.read_only for feed in screen.feeds)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_locked_context_is_unlocked_by_its_name_and_locked_again(world: World) -> None:
    async def line(driver: Driver, text: str) -> None:
        await driver.press("colon")
        await driver.enter(text, into="command")

    async def test(driver: Driver) -> None:
        await at_row(driver, "t", world.topic)
        await driver.until_shown("read-only")
        assert "e Edit" not in driver.text
        await line(driver, "unlock")
        await driver.enter("dead", into="name")
        await driver.until_shown("it stays locked")
        assert driver.app.read_only
        await driver.press("ctrl+u")
        await driver.enter("live", into="name")
        await driver.until_shown("e Edit")
        assert "read-only" not in driver.text
        with driver.app.make_client(read_only=False) as client:
            assert not client.read_only
        await line(driver, "lock")
        await driver.until_shown("read-only")
        assert "e Edit" not in driver.text
        with driver.app.make_client(read_only=False) as client:
            assert client.read_only

    drive(world.make_client, test, read_only=True, locked_by="live", context="live", size=(234, 30))


@pytest.mark.slow
@pytest.mark.dashboard(read_only=True)
async def test_one_that_was_started_read_only_stays_so(driver: Driver, world: World, said: list[str]) -> None:
    await at_row(driver, "t", world.topic, "colon")
    await driver.enter("unlock", into="command")
    await driver.until(lambda: "this dashboard was started with --read-only" in said)
    assert driver.app.read_only
