"""The rebalance of a group on the dashboard: the map, the changes, what to do, and a member's stacks."""

from __future__ import annotations

import time

import pytest

from rmqadmin.core.units import moment
from rmqadmin.tui.screens.members import stack_lines
from rmqadmin.tui.sources.clients import facts_of
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumerRunningInfo
from rmqproto.wire.fastjson import ObjectMap
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.fixed import GROUP, NOW_MS, SILENT, FixedClient
from tests.rmqadmin.tui.members import ScriptedMember
from tests.rmqadmin.tui.opened import Driver, at_row, drive, line_of, put_cursor_at
from tests.rmqadmin.tui.test_groups import at_group, every_queue, queues

WIDE = (200, 40)


@pytest.mark.slow
def test_a_member_leaves_and_the_other_takes_its_queues(world: World) -> None:
    one = ScriptedMember(world.server, world.group, world.topic, client_id="one", owns=queues(world, 0, 1))
    two = ScriptedMember(world.server, world.group, world.topic, client_id="two", owns=queues(world, 2, 3))

    async def test(driver: Driver) -> None:
        await at_group(driver, world)
        await driver.until_shown("queues balanced")
        await driver.press("3")
        await driver.until_shown(
            f"Groups › {world.group}", "every queue has its member", "Changes: 0", "the first look"
        )
        two.__exit__()
        await driver.until_shown("rebalancing for", "nobody consumes 2 queues:", "look again", "two → nobody")
        await driver.until(lambda: "unowned" in line_of(driver, world.topic, " 3 ", "two"))
        one.take(every_queue(world))
        await driver.until_shown("queues went to other members in", "one gained 2, two lost 2", "Changes: 4")
        await driver.until(lambda: "owned" in line_of(driver, world.topic, " 3 ", "one", "two"))
        ahead.append(300_000)  # "since" used to stay "now"
        await driver.until(lambda: "5m ago" in line_of(driver, world.topic, " 3 ", "one", "two"))
        await driver.press("1")
        await driver.until_shown("rebalanced at")
        await driver.press("h")
        await driver.until(lambda: bool(line_of(driver, world.group, "queues went to other")))

    ahead: list[int] = []
    with one:
        two.__enter__()
        drive(world.make_client, test, size=WIDE, clock=lambda: time.time_ns() // 1_000_000 + sum(ahead))


class Talking(FixedClient):
    """The first member reports its stacks; the second reports none."""

    def consumer_running_info(
        self, broker_addr: str, group: str, client_id: str, *, jstack: bool = False
    ) -> ConsumerRunningInfo:
        info = super().consumer_running_info(broker_addr, group, client_id, jstack=jstack)
        if jstack and client_id.startswith("192.0.2.50"):
            info.jstack = (
                "PullMessageService TID: 41 STATE: WAITING\n\tat Pull.run(1)\n\n"
                "ConsumeMessageThread_1 TID: 42 STATE: WAITING\n\tat [/red]Listener.consume\x1b(1)\n\n"
            )
        return info


async def at_member(driver: Driver, at: int) -> None:
    await at_row(driver, "g", GROUP, "enter")
    await driver.until_shown("192.0.2.50@1", SILENT)
    offsets = driver.app.focused
    await driver.press("tab")
    await driver.until(lambda: driver.app.focused is not offsets)
    await put_cursor_at(driver, at)
    await driver.press("enter")


@pytest.mark.slow
@pytest.mark.dashboard(make_client=Talking, size=WIDE, now_ms=NOW_MS)
async def test_the_stacks_of_a_member_and_its_slow_queues(driver: Driver) -> None:
    await at_member(driver, 0)
    await driver.until_shown("lag 0, commits")
    await driver.press("b")
    await driver.until_shown("4 Stacks", "STATE: WAITING", "    at [/red]Listener.consume\\x1b(1)")
    await driver.until_shown("5 lines, r asks again")
    assert driver.text.index("Listener.consume") < driver.text.index("Pull.run"), "listeners first"
    await driver.press("escape", "escape")
    await at_member(driver, 1)
    await driver.until_shown("lag 32, commits", "lag 0, commits")
    lines = [line for line in driver.text.splitlines() if "commits" in line]
    assert "lag 32" in lines[0], "the slowest first"
    await driver.press("b")
    await driver.until_shown("It reports no stacks")


def test_a_stack_as_java_writes_it_names_its_thread_once() -> None:
    """At 80 columns half of each line was the thread's name."""
    listener, short = "ConsumeMessageThread_a-group-with-a-long-name_12", f"{'PullService':40}"
    pull = f"{short}TID: 4 STATE: WAITING\n{short}Pull.run(1)\n"
    text = f"{pull}\n{listener}TID: 5 STATE: X\n{listener}Listener.consume(1)\n"
    assert stack_lines(text) == [
        f"{listener}TID: 5 STATE: X", "  Listener.consume(1)", "", f"{short}TID: 4 STATE: WAITING", "  Pull.run(1)",
    ]  # fmt: skip
    assert stack_lines("") == []


def test_what_a_member_has_popped_is_said_in_words() -> None:
    """It used to be shown as a Python dictionary. Other clients may send anything there."""
    one, two = (MessageQueue("T", "broker-a", queue_id) for queue_id in range(2))
    told = {one: {"waitAckCount": "?"}, two: {"waitAckCount": 1200, "droped": True, "lastPopTimestamp": NOW_MS}}
    facts = facts_of(ConsumerRunningInfo(mq_pop_table=ObjectMap(told)), {two: 5}, NOW_MS)
    assert [(fact.name, fact.text) for fact in facts if fact.kind == "pop queue"] == [
        ("T broker-a 1", f"lag 5, 1,200 not acknowledged, popped {moment(NOW_MS)}, dropped"),
        ("T broker-a 0", "lag -, - not acknowledged, popped -"),
    ]
