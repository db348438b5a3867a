"""Messages looked up by key and by both ids."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from textual.widgets import Input

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui.sources import scan
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.times import TimeRange
from tests.rmqadmin.tui.conftest import BROKER, World
from tests.rmqadmin.tui.opened import Driver, status, until_in_index
from tests.support.quick import first_is_quick

WIDE = (170, 30)


def found(world: World) -> FoundMessage:
    addr = world.server.broker_addr
    stored = world.admin.pull_message(addr, MessageQueue(world.topic, BROKER, 1), 0, max_count=1).messages[0]
    return FoundMessage(stored, BROKER, addr, stored.properties)


@pytest.mark.parametrize(
    "wanted",
    first_is_quick([lambda one: "key-1", lambda one: one.message_id, lambda one: one.stored.message_id]),
    ids=["key", "unique key", "offset id"],
)
async def test_search(driver: Driver, world: World, wanted: Callable[[FoundMessage], str]) -> None:
    await driver.press("s")
    await driver.enter(world.topic, into="topic")
    await driver.enter(wanted(found(world)), into="wanted")
    await until_in_index(driver, "matched 1, stopped because the index has no more: 1 message of")
    await driver.until_shown("key-1")
    await driver.press("space")
    await driver.until_shown("1 marked", "●")
    await driver.press("x")
    await driver.until_shown("Export 1 message")
    await driver.press("escape", "enter")
    await driver.until_shown("Search › key-1", "n 1")


@pytest.mark.slow
@pytest.mark.parametrize("wanted", first_is_quick(["x", "tag:x"]), ids=["index", "scan"])
@pytest.mark.dashboard(size=(240, 24))
async def test_an_unknown_topic_is_said(driver: Driver, world: World, wanted: str) -> None:
    await asked(driver, "no-such-topic", wanted)
    await driver.until_shown("No topic route info in name server")
    if wanted == "x":
        assert "unknown: messages of no-such-topic with x" in driver.text, "nobody knows that there are none"
    assert "again in" not in driver.text, "it asks on request only"


async def test_letters_that_are_keys_elsewhere_go_into_the_question(driver: Driver, world: World) -> None:
    await driver.press("s")
    await driver.type("ctgdq", into="topic")
    await driver.until_shown("topic ctgdq")
    assert driver.app.current_mode == "search"


async def asked(driver: Driver, topic: str, wanted: str, window: str = "") -> None:
    """Fills in the question at once; other tests type it letter by letter."""
    await driver.press("s")
    await driver.until(lambda: driver.app.focused is not None and driver.app.focused.id == "topic")
    for name, text in {"topic": topic, "wanted": wanted, "window": window}.items():
        driver.app.screen.query_one(f"#{name}", Input).value = text
    await driver.press("tab", "enter")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "keys"),
    first_is_quick([
        ("tag:!B", {"key-0", "key-1", "key-2", "key-3"}),
        ("json:deep.list[1].name=[/red]", {"odd"}),
        ("tag:B", {"odd", "other"}),
        ("!tag:B", None),
        ("key:/^key-[12]$/", {"key-1", "key-2"}),
        ("prop:TAGS=/b|x/", {"odd", "other"}),
        ("body:MARK[", {"odd"}),
        ("body:!/n.: /", {"other"}),
        ("json:n=2", {"key-2"}),
        ("sql92:TAGS = 'B' AND KEYS <> 'odd'", {"other"}),
    ], count=1),
)  # fmt: skip
@pytest.mark.dashboard(size=WIDE)
async def test_scans_say_how_much_they_scanned_and_why_they_stopped(
    driver: Driver, world: World, wanted: str, keys: set[str] | None
) -> None:
    world.send(b'{"n": 9, "x": "mark[", "deep": {"list": [0, {"name": "[/red]"}]}}', keys="odd", tag="B")
    world.send(b"no JSON", keys="other", tag="B", queue_id=2)
    await asked(driver, world.topic, wanted)
    if keys is None:  # no id begins with an exclamation mark
        await driver.until_shown("matched 0, stopped because the index has no more")
        return
    await driver.until(lambda: f"scanned 6, matched {len(keys)}, stopped because the window was read" in status(driver))
    everything = {"key-0", "key-1", "key-2", "key-3", "odd", "other"}
    shown = {word for line in driver.text.splitlines()[3:-2] for word in line.split()} & everything
    assert shown == keys


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_a_window_of_time_limits_what_is_scanned_and_what_the_index_gives(driver: Driver, world: World) -> None:
    await asked(driver, world.topic, "tag:A", "-3h..1h")
    await driver.until(lambda: "scanned 0, matched 0, stopped because the window was read" in status(driver))
    assert re.search(r"stored [-\d: ]+\.\.[-\d: ]+", status(driver)), "1h is an hour ago, and said as such"
    await driver.press("s")
    driver.app.screen.query_one("#wanted", Input).value = "key-1"
    await driver.press("enter")
    await driver.until(lambda: "matched 0, stopped because the index" in status(driver))
    driver.app.screen.query_one("#window", Input).value = ""
    await driver.press("s", "enter")
    await until_in_index(driver, "matched 1, stopped because the index")


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_a_scan_that_stops_early_goes_on_where_it_was(
    driver: Driver, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MATCHES_MAX", 2)
    await asked(driver, world.topic, "tag:A")
    await driver.until(lambda: "scanned 2, matched 2, stopped because 2 matched" in status(driver))
    await driver.until_shown(". Stop, go on")
    await driver.press("full_stop")
    await driver.until(lambda: "scanned 4, matched 4, stopped because the window was read" in status(driver))


@pytest.mark.parametrize("wanted", ["body:", "tag:!", "prop:x", "json:=1", "body:/(/", "sql92:", "sql92:a >"])
def test_half_a_question_is_none(wanted: str) -> None:
    with pytest.raises(UsageError):
        scan.parse_question(wanted)


@pytest.mark.dashboard(size=WIDE)
async def test_what_cannot_be_asked_is_said_and_nothing_is_asked(driver: Driver, world: World) -> None:
    await asked(driver, world.topic, "body:x", "yesterday")
    await driver.until_shown("'yesterday' is not a time")
    assert "Enter asks" in status(driver)


def test_a_scan_that_is_stopped_says_by_whom() -> None:
    one = scan.Scan("T", lambda _: True, TimeRange(None, None))
    assert one.summary() == "scanned 0, matched 0, looking on …"
    one.stop("you stopped it")
    one.stop("you went back")
    assert one.summary() == "scanned 0, matched 0, stopped because you stopped it"
    one.go_on()
    assert one.stopped is None
