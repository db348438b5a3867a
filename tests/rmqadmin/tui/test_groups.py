"""Groups of a real broker: lag and its age, the owner of each queue, problems, and moved offsets."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from pathlib import Path

import pytest

from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.groups import GroupsScreen
from rmqadmin.tui.screens.row_parts import RowState
from rmqadmin.tui.sources.groups import GroupFacts, read_group, read_groups, read_numbers
from rmqadmin.tui.sources.pulse import read_lags
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError
from tests.rmqadmin.tui.conftest import BROKER, QUEUE_COUNT, World
from tests.rmqadmin.tui.fixed import GROUP, NOW_MS, FixedClient
from tests.rmqadmin.tui.members import ScriptedMember
from tests.rmqadmin.tui.opened import Driver, at_row, drive, line_of, put_cursor
from tests.support.python_member import PythonMember

WIDE = (234, 30)


def queues(world: World, *queue_ids: int) -> list[MessageQueue]:
    return [MessageQueue(world.topic, BROKER, queue_id) for queue_id in queue_ids]


def every_queue(world: World) -> list[MessageQueue]:
    """All queues of the topic. The retry topic's queue, which every member also consumes, is not among them."""
    return queues(world, *range(QUEUE_COUNT))


async def at_group(driver: Driver, world: World) -> None:
    await at_row(driver, "g", world.group, "enter")
    await driver.until_shown(f"Groups › {world.group}", "4 queues, lag 4")


def queue_line(driver: Driver, world: World, queue_id: int) -> str:
    wanted = [world.topic, BROKER, str(queue_id)]
    return next((line for line in driver.lines if line.split()[:3] == wanted), "")


async def test_lag_in_messages_and_time_of_a_group_that_is_offline(driver: Driver, world: World) -> None:
    def words() -> list[str]:
        return line_of(driver, world.group).split()

    await at_row(driver, "g", world.group)
    # The online state is shown before the lag is known.
    await driver.until(lambda: "offline" in line_of(driver, world.group) and words()[1] == "4")
    assert words()[3] in ("ms", "s"), "the oldest waiting message is as old as this test"


@pytest.mark.slow
def test_the_cursor_is_on_the_worst_group_whichever_feed_has_read_the_groups_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was on the first by name, where enter then led, if the states were asked for before the list was there."""
    states_read, refresh, refresh_states = asyncio.Event(), GroupsScreen._refresh, GroupsScreen._refresh_states

    async def states(screen: GroupsScreen, feed: Feed) -> None:
        await refresh_states(screen, feed)
        states_read.set()

    async def list_after(screen: GroupsScreen, feed: Feed) -> None:
        await states_read.wait()
        await refresh(screen, feed)

    def judged(screen: GroupsScreen, key: str, facts: GroupFacts, *_: object) -> RowState:
        found = Finding(Grade.ERROR, Check.STUCK, Subject(SubjectKind.GROUP, key), "stuck")
        return RowState((found,) if key == "stopped" else ())

    monkeypatch.setattr(GroupsScreen, "_refresh", list_after)
    monkeypatch.setattr(GroupsScreen, "_refresh_states", states)
    monkeypatch.setattr(GroupsScreen, "state_of", judged)

    async def test(driver: Driver) -> None:
        await driver.press("g")
        await driver.until(lambda: [line.split()[:1] for line in driver.lines[3:5]] == [["stopped"], [GROUP]])
        await driver.until(lambda: driver.app.screen.query_one(RowTable).cursor_key == "stopped")

    drive(FixedClient, test)


def test_an_offset_past_the_end_of_its_queue_takes_nothing_from_the_lag_of_others(world: World) -> None:
    """The opening screen used to say 5 where the list of groups said 0."""
    addr = world.server.broker_addr
    world.admin.update_consumer_offset(addr, world.group, world.topic, 0, 5)
    memory = ClusterMemory(lambda: 0)
    facts = read_groups(world.admin, memory).rows[world.group]
    queues = read_group(world.admin, memory, facts)
    of_queues = [row.lag_count for row in queues.found.rows.values() if row.queue.topic == world.topic]
    in_list = read_numbers(world.admin, memory, {world.group: facts})[world.group].lag_count
    on_pulse = read_lags(world.admin, memory).groups[world.group].lag_count
    assert of_queues == [0, 1, 1, 1]
    assert (in_list, on_pulse, queues.offsets.lag_count) == (3, 3, 3)


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_a_queue_of_which_nothing_was_consumed_has_no_age(driver: Driver, world: World) -> None:
    """Brokers report 0 for it, which used to be shown as 20,780 days ago."""
    await at_group(driver, world)
    await driver.until(lambda: "consumed" in driver.text and queue_line(driver, world, 1).split()[3:6] == list("011"))
    assert not re.search(r"\d+d ago", driver.text)
    world.admin.update_consumer_offset(world.server.broker_addr, world.group, world.topic, 1, 1)
    await driver.until(lambda: bool(re.search(r" (now|\d+[smh] ago) ", queue_line(driver, world, 1))))


@pytest.mark.slow
def test_a_real_member_owns_every_queue(world: World) -> None:
    async def test(driver: Driver) -> None:
        await at_row(driver, "g", world.group)
        await driver.until(lambda: "balanced" in line_of(driver, world.group))
        await driver.press("enter")
        await driver.until_shown("Members: 1", "queues balanced", "2 Members 1")
        await driver.until(lambda: member.client_id[:12] in queue_line(driver, world, 0))
        await driver.press("2")
        await driver.until_shown(f"{world.topic} (TAG *)")

    with PythonMember(world.server.namesrv_addr, world.group, world.topic) as member:
        drive(world.make_client, test, size=WIDE)


@pytest.mark.slow
def test_queues_of_nobody_and_of_two_are_marked(world: World) -> None:
    async def test(driver: Driver) -> None:
        await at_group(driver, world)
        await driver.until_shown("owned twice, one, two", "2 unowned, 1 owned twice")
        assert "unowned" in queue_line(driver, world, 3)

    with (
        ScriptedMember(world.server, world.group, world.topic, client_id="one", owns=queues(world, 0, 1)),
        ScriptedMember(world.server, world.group, world.topic, client_id="two", owns=queues(world, 1)),
    ):
        drive(world.make_client, test, size=WIDE)


@pytest.mark.slow
def test_a_member_that_does_not_answer_is_unknown_and_so_are_its_queues(world: World) -> None:
    """A queue whose owner is unknown is not reported as unowned."""

    async def test(driver: Driver) -> None:
        await at_group(driver, world)
        await driver.until_shown("1 unknown")
        assert "unowned" not in driver.text
        assert "unknown" in queue_line(driver, world, 3)
        await driver.press("2")
        await driver.until_shown("does not answer")

    with (
        ScriptedMember(world.server, world.group, world.topic, client_id="one", owns=queues(world, 0, 1, 2)),
        ScriptedMember(world.server, world.group, world.topic, client_id="silent", owns=None),
    ):
        drive(world.make_client, test, size=WIDE)


@pytest.mark.slow
def test_a_dashboard_that_ends_during_a_reset_names_the_undo_file(
    world: World, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was deleted, although a broker may have been told."""
    said: list[str] = []
    told = threading.Event()

    def reset_offset(client: DashboardClient, *_: object, **__: object) -> None:
        told.set()
        while not client.is_stopped:
            time.sleep(0.01)
        raise ConnectError("the request was cancelled")

    async def test(driver: Driver) -> None:
        await at_group(driver, world)
        await driver.press("ctrl+r")
        await driver.enter("end", into="field-to")
        await driver.until_shown(f"Type {world.group} to go on")
        await driver.enter(world.group, into="name")
        await driver.until(told.is_set)
        driver.app.exit()

    monkeypatch.setattr(DashboardClient, "reset_offset", reset_offset)
    drive(world.make_client, test, size=WIDE, tell=said.append)
    (path,) = state_home.rglob(f"*{world.group}*.json")
    back = f"If anything was changed, this undoes it: rmqadmin resetOffset --undo {path}"
    assert said == [f"the request was cancelled. {back}"]


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_one_queue_alone_is_moved(driver: Driver, world: World, state_home: Path) -> None:
    await at_group(driver, world)
    await put_cursor(driver, f"{world.topic}/broker-a/2")
    await driver.press("e")
    await driver.until_shown("Reset the offset in queue 2 of broker-a")
    await driver.enter("end", into="field-to")
    await driver.until_shown(
        "lag in 1 queue: 1 before, 0 after; 1 left behind, the oldest of 20", f"Type {world.group} to go on"
    )
    await driver.enter(world.group, into="name")
    await driver.until_shown("to undo this: rmqadmin resetOffset --undo")
    assert offsets(world) == [0, 0, 1, 0]


def offsets(world: World) -> list[int | None]:
    addr = world.server.broker_addr
    return [world.admin.consumer_offset(addr, world.group, world.topic, number) for number in range(QUEUE_COUNT)]


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_a_place_that_is_none_is_said_and_nothing_is_asked(driver: Driver, world: World) -> None:
    await at_group(driver, world)
    await driver.press("ctrl+r")
    await driver.enter("yesterday", into="field-to")
    await driver.until_shown("'yesterday' is not a time")
    assert "to go on" not in driver.text


@pytest.mark.slow
def test_the_lag_time_of_a_group_that_stands_still_grows() -> None:
    """In a list it stayed as it was first read, as long as the group's numbers stayed the same."""
    ahead_ms = [0]

    async def test(driver: Driver) -> None:
        await at_row(driver, "g", GROUP)
        await driver.until(lambda: cell(driver, "lag_ms") == "≥1h00m")
        ahead_ms[0] = 3_600_000
        await driver.until(lambda: cell(driver, "lag_ms") == "≥2h00m")

    def cell(driver: Driver, name: str) -> str | None:
        model = driver.app.screen.query_one(RowTable).model
        at = next(at for at, column in enumerate(model.columns) if column.name == name)
        return model.lines[GROUP].texts[at]

    drive(FixedClient, test, clock=lambda: NOW_MS + ahead_ms[0])
