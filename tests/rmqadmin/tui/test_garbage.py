"""Garbage is collected while no key is pressed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
from textual.strip import Strip

from rmqadmin.tui.garbage import AWAY_S, PASSED_OVER_MAX, SEARCHES_MIN, WAITED_S, RestfulCollector
from rmqadmin.tui.sources.topics import TopicFacts
from rmqadmin.tui.widgets.tables.columns import Column
from rmqadmin.tui.widgets.tables.rows import Rows
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.opened import Driver, drive


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each full search that is asked for."""
    found: list[int] = []
    monkeypatch.setattr("rmqadmin.tui.garbage.gc.collect", lambda: found.append(1))
    monkeypatch.setattr("rmqadmin.tui.garbage.gc.freeze", lambda: None)
    monkeypatch.setattr("rmqadmin.tui.garbage.gc.unfreeze", lambda: None)
    return found


@pytest.mark.parametrize("untouched_s", [0.0, WAITED_S, 100.0])
@pytest.mark.parametrize(("young_searches", "searched"), [(SEARCHES_MIN - 1, 0), (SEARCHES_MIN, 1), (500, 1)])
def test_it_waits_for_work(
    searches: list[int], monkeypatch: pytest.MonkeyPatch, untouched_s: float, young_searches: int, searched: int
) -> None:
    """Between keys it used to wait for more, and then took 20 to 45 ms, for which a key waited."""
    monkeypatch.setattr("rmqadmin.tui.garbage.gc.get_count", lambda: (0, 0, young_searches))
    RestfulCollector().untouched_for(untouched_s)
    assert len(searches) == searched


def test_a_search_passes_over_what_the_one_before_has_left_until_nobody_is_there(
    searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = []
    monkeypatch.setattr("rmqadmin.tui.garbage.gc.unfreeze", lambda: whole.append(len(searches)))
    monkeypatch.setattr("rmqadmin.tui.garbage.gc.get_count", lambda: (0, 0, SEARCHES_MIN))
    collector = RestfulCollector()
    for elapsed_s in (0.0, WAITED_S, AWAY_S, 2 * AWAY_S, 0.0, WAITED_S):
        collector.untouched_for(elapsed_s)
    assert (len(searches), whole) == (6, [2])  # once, not at each search of a night
    collector.untouched_for(AWAY_S)
    assert whole == [2, 6]
    for _ in range(2 * PASSED_OVER_MAX):
        collector.untouched_for(0.0)
    assert whole == [2, 6]  # not while keys are pressed
    collector.untouched_for(WAITED_S)
    assert len(whole) == 3


@pytest.fixture
def full_searches() -> Iterator[list[str]]:
    """Gets an entry for each full search, whatever started it. Python is set to start them all the time."""
    found: list[str] = []

    def noted(phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            found.append(phase)

    before = gc.get_threshold()
    gc.set_threshold(20, 5, 2)
    gc.callbacks.append(noted)
    yield found
    gc.callbacks.remove(noted)
    gc.set_threshold(*before)


def test_while_the_dashboard_is_open_python_begins_no_full_search(full_searches: list[str]) -> None:
    """Neither the loop nor a thread that parses a body starts one: four of 45 keys in large bodies used to wait for
    one."""
    before = gc.get_threshold()

    def make_much() -> list[list[int]]:
        """Doubles the number of objects, because Python starts no full search before there are a quarter more."""
        gc.collect()
        count = len(gc.get_objects()) + 10_000  # does not count the frozen ones
        full_searches.clear()
        return [[number] for number in range(count)]

    async def test(driver: Driver) -> None:
        await driver.until(lambda: gc.get_threshold() != before)
        assert gc.get_threshold()[:2] == before[:2]
        make_much()
        assert full_searches == []

    drive(FixedClient, test, now_ms=NOW_MS)
    assert gc.get_threshold() == before
    make_much()
    assert full_searches


def test_what_was_drawn_needs_no_search_to_be_freed() -> None:
    """Textual's strips of whole lines referred to themselves."""

    def strip_count() -> int:
        return sum(isinstance(one, Strip) for one in gc.get_objects())

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("336,774")
        await driver.until(lambda: Strip.divide.__module__ == RestfulCollector.__module__)
        await driver.press("r")
        gc.collect()
        before = strip_count()
        gc.disable()
        try:
            for _ in range(10):
                driver.app.screen.refresh()
                await driver.press("down", "up")
            left = strip_count()
        finally:
            gc.enable()
        height = driver.app.size.height
        assert left < before + 2 * height  # ten pictures had been drawn

    drive(FixedClient, test, now_ms=NOW_MS)
    strip = Strip.blank(10)
    assert strip.divide([10]) == [strip]  # Textual's own method is back


def test_a_search_does_not_walk_through_rows() -> None:
    """A thousand topics used to be ten thousand objects for the collector."""
    rows = Rows([Column(name="topic"), Column(name="perm", is_number=True)], lambda: NOW_MS, None)
    brokers: list[object] = []
    found = {
        name: TopicFacts(name, "", {"broker-a": TopicConfig(topic_name=name)}, brokers)  # type: ignore[arg-type]
        for name in (f"topic-{number}" for number in range(1000))
    }
    gc.collect()
    before = len(gc.get_objects())
    rows.set_base(found.items())
    rows.arrange()
    gc.collect()
    dicts = 3 * len(found) if sys.version_info >= (3, 14) else 0  # 3.14 and later track all dictionaries
    assert len(gc.get_objects()) - before - dicts < 100
    assert [line.texts[0] for line in rows.shown] == list(found)
