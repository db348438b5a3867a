"""Garbage is looked for while nobody presses a key."""

from __future__ import annotations

import gc

import pytest

from rmqadmin.tui.garbage import WAITED_S, RestfulCollector
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.opened import Driver, drive


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each full search that is asked for."""
    found: list[int] = []
    monkeypatch.setattr("rmqadmin.tui.garbage.gc.collect", lambda: found.append(1))
    return found


@pytest.mark.parametrize(
    ("untouched_s", "young_searches", "searched"),
    [(WAITED_S, 10, 1), (WAITED_S - 0.1, 10, 0), (WAITED_S, 9, 0), (100.0, 500, 1)],
)
def test_it_waits_for_rest_and_for_work(
    searches: list[int], monkeypatch: pytest.MonkeyPatch, untouched_s: float, young_searches: int, searched: int
) -> None:
    monkeypatch.setattr("rmqadmin.tui.garbage.gc.get_count", lambda: (0, 0, young_searches))
    RestfulCollector().untouched_for(untouched_s)
    assert len(searches) == searched


def test_while_the_dashboard_is_open_python_begins_full_searches_less_often() -> None:
    before = gc.get_threshold()

    async def test(driver: Driver) -> None:
        await driver.until(lambda: gc.get_threshold()[2] >= 10 * before[2])
        assert gc.get_threshold()[:2] == before[:2]

    drive(FixedClient, test, now_ms=NOW_MS)
    assert gc.get_threshold() == before
