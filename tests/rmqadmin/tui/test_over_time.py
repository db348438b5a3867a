"""Numbers of a row over time: its sparkline, its trend and its marks, and the plot of all its numbers."""

from __future__ import annotations

import re

import pytest

from rmqadmin.tui.screens.over_time import OverTimeScreen
from rmqadmin.tui.widgets.plot import TimePlot
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import TopicStats
from tests.rmqadmin.tui.conftest import BROKER, World
from tests.rmqadmin.tui.fixed import GROUP, NOW_MS, TOPIC, FixedClient
from tests.rmqadmin.tui.members import ScriptedMember
from tests.rmqadmin.tui.opened import Driver, at_row, drive, line_of, put_cursor
from tests.rmqadmin.tui.test_groups import at_group, queue_line

WIDE = (264, 40)


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_from_the_groups_to_the_plot_of_one_and_of_a_queue(driver: Driver, world: World) -> None:
    await at_row(driver, "g", world.group)
    await driver.until(lambda: bool(re.search(r" 4 .*[▁▂▃▄▅▆▇█]{2}", line_of(driver, world.group))))
    await driver.press("l")
    await driver.until_shown(f"{world.group} over time", "consumed/s", "most 4")
    world.send(b"one more")
    await driver.until_shown("lag  5  least 4, most 5", "lag +")
    await driver.press("escape")
    await driver.press("enter")
    await driver.until_shown(f"Groups › {world.group}", "4 queues, lag 5")
    await driver.press("l")
    await driver.until_shown(f"{world.group}: {world.topic}/{BROKER}/0 over time", "lag  2")
    assert isinstance(driver.app.screen, OverTimeScreen)
    assert "consumed/s" not in driver.text


@pytest.mark.slow
@pytest.mark.parametrize(("key", "row", "title"), [("c", "broker-a/0", "put p99"), ("t", TOPIC, "out/s")])
@pytest.mark.dashboard(size=WIDE, now_ms=NOW_MS)
async def test_the_plot_of_brokers_and_topics(driver: Driver, key: str, row: str, title: str) -> None:
    await driver.press(key)
    await put_cursor(driver, row)
    await driver.until_shown("1,520.5")
    await driver.press("l")
    await driver.until_shown(f"{row} over time", "in/s  1,520.5  least 1,520.5", title)


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE, now_ms=NOW_MS)
async def test_a_plot_fits_its_own_size(driver: Driver) -> None:
    """It was drawn when the screen changed its size. Sometimes the plot got its own new size later, and kept the old
    bars until the next sample."""
    await at_row(driver, "t", TOPIC, "l")
    await driver.until_shown(f"{TOPIC} over time", "in/s  1,520.5")
    plot = driver.app.screen.query(TimePlot).first()
    plot.styles.width = 60
    await driver.until(lambda: max(map(len, str(plot.content).splitlines())) == plot.size.width <= 60)


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE, now_ms=NOW_MS)
async def test_the_plot_of_what_a_line_of_the_pulse_is_about(driver: Driver) -> None:
    for table, key, title in (("brokers", "broker-b/0", "disk  -"), ("worst", GROUP, "lag time")):
        driver.app.screen.query_one(f"#{table}", RowTable).focus()
        await driver.until(lambda table=table: driver.app.focused is not None and driver.app.focused.id == table)
        await driver.until(lambda table=table, key=key: has_cursor(driver, table, key))
        await driver.press("l")
        await driver.until_shown(f"{key} over time", title)
        await driver.press("escape")
        await driver.until_shown("Furthest behind")


def has_cursor(driver: Driver, table: str, key: str) -> bool:
    found = driver.app.screen.query_one(f"#{table}", RowTable)
    found.move_to(key)
    return found.cursor_key == key


@pytest.mark.slow
def test_queues_that_stand_still_while_members_are_online(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqadmin.tui.screens.group.SAMPLE_DEFAULT_S", 0.0)
    owned = [MessageQueue(world.topic, BROKER, 1)]

    async def test(driver: Driver) -> None:
        await at_group(driver, world)
        await driver.until(lambda: "stuck for" in queue_line(driver, world, 1))
        world.admin.update_consumer_offset(world.server.broker_addr, world.group, world.topic, 1, 1)
        await driver.until(lambda: "stuck for" not in queue_line(driver, world, 1))
        assert "stuck for" in queue_line(driver, world, 2)

    with ScriptedMember(world.server, world.group, world.topic, client_id="one", owns=owned):
        drive(world.make_client, test, size=WIDE)


class Deleting(FixedClient):
    """A broker that has deleted the beginning of each queue, and keeps messages for an hour."""

    def topic_stats(self, broker_addr: str, topic: str) -> TopicStats:
        found = super().topic_stats(broker_addr, topic)
        for ends in found.offset_table.values():
            ends.min_offset = 112_228
        return found

    def broker_config(self, broker_addr: str, *, with_own_defaults: bool = False) -> dict[str, str]:
        return super().broker_config(broker_addr, with_own_defaults=with_own_defaults) | {"fileReservedTime": "1"}


@pytest.mark.slow
@pytest.mark.dashboard(make_client=Deleting, size=WIDE, now_ms=NOW_MS)
async def test_what_was_deleted_before_the_group_consumed_it_and_what_will_be(driver: Driver) -> None:
    await driver.until(lambda: bool(line_of(driver, GROUP, "may be deleted at any time now")))
    await at_row(driver, "g", GROUP)
    await driver.until(lambda: "soon loses messages" in line_of(driver, GROUP))
    await driver.press("enter")
    await driver.until_shown("2 deleted before; ", "9,400 deleted bef")
