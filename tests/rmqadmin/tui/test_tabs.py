"""The tabs of a topic, a group and a broker: each is opened by its number or a click, and keeps its cursor until the
thing is left."""

from __future__ import annotations

import pytest
from textual.events import Resize
from textual.widgets import Tab

from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.group import GroupScreen
from rmqadmin.tui.screens.members import MembersScreen
from rmqadmin.tui.screens.tabs import TabLine
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.message.properties import DELAY
from tests.rmqadmin.tui.conftest import BROKER, World
from tests.rmqadmin.tui.fixed import GROUP, NOW_MS
from tests.rmqadmin.tui.opened import Driver, at_row, put_cursor_at


@pytest.mark.dashboard(size=(80, 24), now_ms=NOW_MS)
async def test_a_tab_keeps_its_cursor_until_its_thing_is_left(driver: Driver) -> None:
    await at_row(driver, "g", GROUP, "enter")
    await put_cursor_at(driver, 2)
    queues = driver.app.screen
    assert isinstance(queues, GroupScreen)
    key = queues.offsets.cursor_key
    await driver.press("2")
    members = driver.app.screen
    assert isinstance(members, MembersScreen)
    await driver.until_shown("192.0.2.50@1", "2 Members 3", "not as the others")
    await driver.press("7")  # there is no such tab
    assert driver.app.screen is members
    await driver.pilot.click("#tab-1")
    await driver.until(lambda: driver.app.screen is queues)
    assert queues.offsets.cursor_key == key
    await driver.press("escape")
    await driver.until(lambda: not members.is_running and not queues.is_running)
    assert len(driver.app.screen_stack) == 1


async def at_tab(driver: Driver, number: int, *shown: str) -> None:
    await driver.press(str(number))
    screen = driver.app.screen
    assert isinstance(screen, DashboardScreen)
    assert screen.tab_at == number
    await driver.until_shown(*shown)


@pytest.mark.slow
@pytest.mark.dashboard(size=(200, 40))
async def test_each_tab_of_a_topic_and_of_its_broker_shows_what_the_commands_print(
    driver: Driver, world: World
) -> None:
    delayed = Message(world.topic, b"later", properties={DELAY: "17"})
    world.admin.send_message(world.server.broker_addr, MessageQueue(world.topic, BROKER, 0), delayed)
    await at_row(driver, "t", world.topic, "enter")
    await at_tab(driver, 2, world.group, "2 Groups 1")
    await at_tab(driver, 3, f"0={world.server.broker_addr}", "RW (6)", "1 route")
    await at_tab(driver, 4, "do not know the topics of a producer")
    await at_tab(driver, 5, "broker-a", "attributes", "1 broker")
    await at_tab(driver, 1, "4 queues")
    await at_row(driver, "c", "broker-a/0", "enter")
    await driver.until_shown("putTps", "load")
    await at_tab(driver, 2, "aclEnable")
    await at_tab(driver, 3, "newest")
    await at_tab(driver, 4, world.group)
    await at_tab(driver, 5, "every set has its master")
    await at_tab(driver, 6, "17", "1h00m", "timers: ")


async def test_tabs_of_a_screen_that_closes_may_be_gone(driver: Driver) -> None:
    """A look at the frame between them and their screen ended the dashboard."""
    await at_row(driver, "g", GROUP, "enter")
    screen = driver.app.screen
    assert isinstance(screen, GroupScreen)
    tabs = screen.query_one(TabLine)
    await tabs.query(Tab).remove()
    screen.show_frame()
    await tabs.query("*").remove()
    tabs.post_message(Resize(tabs.size, tabs.virtual_size))
    await driver.handled(tabs)
