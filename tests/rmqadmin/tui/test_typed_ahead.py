"""Keys that come faster than the screens that they open: a paste, a script, fast fingers. They used to go to the screen
before."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from threading import Event

import pexpect
import pytest
from textual import events
from textual.keys import _character_to_key
from textual.widgets import Input

from rmqadmin.tui import typed_ahead
from rmqadmin.tui.command_line import places
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.routes import TopicConfigs
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.opened import UNTIL_TIMEOUT_S, Driver, drive
from tests.rmqadmin.tui.test_terminal import expect_all, started

ENTER = "\r"
PATIENT = "from rmqadmin.tui import typed_ahead; typed_ahead.HELD_MAX_S = typed_ahead.ROWS_MAX_S = 60.0"
PROGRAM = f"{PATIENT}; from rmqadmin.__main__ import main; main()"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits as long as a busy machine may take to open a screen."""
    monkeypatch.setattr(typed_ahead, "HELD_MAX_S", UNTIL_TIMEOUT_S)
    monkeypatch.setattr(typed_ahead, "ROWS_MAX_S", UNTIL_TIMEOUT_S)


def at_once(driver: Driver, text: str) -> None:
    """Posts all keys before the dashboard has seen the first."""
    for character in text:
        key = "enter" if character == ENTER else _character_to_key(character)
        driver.app.post_message(events.Key(key, character))


def is_at(driver: Driver, where: str, shown: str) -> bool:
    return " > ".join(driver.app.way) == where and shown in driver.text


def test_at_once_is_as_one_by_one(world: World) -> None:
    """Each key acts where the one before it has led."""

    async def test(driver: Driver) -> None:
        await driver.until_shown("broker-a")
        for keys, where, shown in (
            (f"t/{world.topic}", "Topics", f"filter {world.topic}"),
            (f"{ENTER}g/{world.group}", "Groups", f"filter {world.group}"),
            (f"{ENTER}:topic {world.topic}{ENTER}", f"Topics > {world.topic}", "4 queues"),
            (f"m/key-{ENTER}", f"Topics > {world.topic} > messages", "filter key-"),
            ("d:pulse" + ENTER, "Pulse", "broker-a"),
            (f":group {world.group}{ENTER}b", f"Groups > {world.group} > rebalance", "since"),
            ("c?", "Brokers", "on this screen"),
            (f"?s{world.topic}", "Search", world.topic),
        ):
            at_once(driver, keys)
            await driver.until(partial(is_at, driver, where, shown))

    drive(world.make_client, test)


def test_what_is_pasted_behind_a_key_goes_where_that_key_leads() -> None:
    async def test(driver: Driver) -> None:
        at_once(driver, "t:")
        driver.app.post_message(events.Paste("groups"))
        at_once(driver, ENTER)
        await driver.until(partial(is_at, driver, "Groups", "arrivals"))

    drive(FixedClient, test, now_ms=NOW_MS)


def test_from_message_to_message_at_once() -> None:
    """Each step opens another screen; the chosen tab stays."""

    async def test(driver: Driver) -> None:
        await driver.press("d", "enter")
        await driver.until_shown("4 messages")
        at_once(driver, ENTER + "]]2[")
        await driver.until_shown("message 2 of 4", '["[/red]", 1.50, 12345678901234567890]')
        at_once(driver, "]][[[")
        await driver.until_shown("message 1 of 4")

    drive(FixedClient, test, now_ms=NOW_MS)


def test_down_to_a_message_at_once(world: World) -> None:
    """Each Enter is meant for the first row to come, and rows come later than their screen."""

    async def test(driver: Driver) -> None:
        await driver.until_shown("broker-a")
        at_once(driver, f"d/{world.group}{ENTER * 3}")
        await driver.until_shown("message 1 of 1", "JSON")
        at_once(driver, f"t/{world.topic}{ENTER * 2}mjj{ENTER}")
        await driver.until_shown("message 3 of 4")

    drive(world.make_client, test)


def test_on_a_busy_machine_keys_wait_until_the_focus_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that keys are held may pass within a single turn of the loop. They were then given out before ``tab``
    had moved the focus, into the field before."""
    monkeypatch.setattr(typed_ahead, "HELD_MAX_S", 0)

    async def test(driver: Driver) -> None:
        await driver.press("t", "n")
        await driver.until(lambda: isinstance(driver.app.focused, Input))
        first, second, *_ = driver.app.screen.query(Input)
        at_once(driver, "returns\t12")
        await driver.until(lambda: "12" in first.value + second.value)
        assert (first.value, second.value) == ("returns", "12")

    drive(FixedClient, test, now_ms=NOW_MS)


class LateTopics(FixedClient):
    """Returns the topics only when the test permits it."""

    may_tell = Event()

    def all_topics(self, broker_addr: str) -> TopicConfigs:
        self.may_tell.wait()
        return super().all_topics(broker_addr)


def test_keys_do_not_wait_long_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key still acts where the one before it has led."""
    monkeypatch.setattr(typed_ahead, "ROWS_MAX_S", 0.1)

    async def test(driver: Driver) -> None:
        try:
            await driver.until_shown("broker-a")
            at_once(driver, "t/flights")
            await driver.until(lambda: isinstance(driver.app.focused, Input) and driver.app.focused.value == "flights")
            assert not driver.app.screen.query_one(RowTable).all_count
        finally:
            LateTopics.may_tell.set()
        await driver.until_shown("1 of 6 topics")

    drive(LateTopics, test, now_ms=NOW_MS)


def test_what_opens_nothing_or_is_typed_into_a_line_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[str] = []
    holds = typed_ahead.TypedAhead.holds

    def noted(keys: typed_ahead.TypedAhead, typed: typed_ahead.Typed) -> bool:
        is_held = holds(keys, typed)
        held.extend([typed.key] if is_held and isinstance(typed, events.Key) else [])
        return is_held

    monkeypatch.setattr(typed_ahead.TypedAhead, "holds", noted)

    async def test(driver: Driver) -> None:
        await driver.press("t", "slash")
        at_once(driver, "flights")
        await driver.until_shown("filter flights")
        assert held == []
        await driver.press("escape")
        at_once(driver, "jjkG")
        table = driver.app.screen.query_one(RowTable)
        await driver.until(lambda: table.cursor_at == table.shown_count - 1)
        assert held == []
        at_once(driver, "t/clo")
        await driver.until_shown("filter clo")
        assert held[0] == "slash"

    drive(FixedClient, test, now_ms=NOW_MS)


def test_a_key_behind_what_never_opens_still_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key waits for a moment, then goes to the widget with the focus."""
    monkeypatch.setattr(typed_ahead, "HELD_MAX_S", 0.1)
    asked = []

    async def never(dashboard: object, place: object) -> None:
        asked.append(place)
        await asyncio.Event().wait()

    monkeypatch.setattr(places, "open_place", never)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("flights")
        table = driver.app.screen.query_one(RowTable)
        for count, keys in enumerate(("jj", "q"), 1):
            await driver.press("colon", *"groups")
            at_once(driver, ENTER)
            await driver.until(lambda count=count: len(asked) == count)
            at_once(driver, keys)
            await driver.until(lambda: table.cursor_at == 2)
        await driver.until(lambda: driver.app.return_code == 0)

    drive(FixedClient, test, now_ms=NOW_MS)


def test_in_a_terminal_each_piece_written_at_once(world: World, tmp_path: Path) -> None:
    program = started(world, tmp_path, "tui", "--interval", "0.5", program=("-c", PROGRAM), size=(80, 24))
    program.expect("broker-a")
    program.send(f"t/{world.topic}")
    program.expect(r"1 (of [\d,]+ )?topic")
    program.send(f"\rg/{world.group}\r")
    program.expect(r"1 (of [\d,]+ )?group")
    program.send(f":topic {world.topic}\rm/key-2\r")
    program.expect("1 of 4 messages")
    program.send(f":group {world.group}\rb")
    expect_all(program, "Groups", world.group, "rebalance")
    program.send(f"d/{world.group}\r\r\r")
    expect_all(program, "message 1 of 1", "JSON")
    program.send("cq")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before
