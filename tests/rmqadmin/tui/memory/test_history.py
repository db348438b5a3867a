"""Samples over time: bounded, with gaps, and what they say of a change."""

from __future__ import annotations

from rmqadmin.tui.memory.history import SAMPLES_MAX, SERIES_MAX, NumberChange, NumberHistory, Series

LAG = Series("group", "billing", "lag_count")


def made(*values: float | None) -> NumberHistory:
    """One sample a second, from 0 on."""
    history = NumberHistory()
    for at, value in enumerate(values):
        history.add(LAG, at * 1000, value)
    return history


def test_a_change_is_from_the_first_to_the_last_sample_within_the_time() -> None:
    history = made(10.0, 20.0, 60.0)
    assert history.change(LAG, 60_000) == NumberChange(50.0, 2000)
    assert history.change(LAG, 1000) == NumberChange(40.0, 1000)
    assert NumberChange(-30.0, 2000).per_s == -15.0


def test_one_sample_is_no_change() -> None:
    assert made().change(LAG, 60_000) is None
    assert made(10.0).change(LAG, 60_000) is None
    assert made(10.0, None).change(LAG, 60_000) is None


def test_a_change_does_not_reach_over_a_gap() -> None:
    """A broker died: the sum over the others is not less lag."""
    assert made(100.0, 110.0, None, 50.0, 55.0).change(LAG, 60_000) == NumberChange(5.0, 1000)


def test_both_samples_and_series_are_bounded() -> None:
    history = made(*range(SAMPLES_MAX + 10))
    assert history.values(LAG, SAMPLES_MAX * 2) == list(range(10, SAMPLES_MAX + 10))
    assert history.values(LAG, 2) == [SAMPLES_MAX + 8, SAMPLES_MAX + 9]
    for number in range(SERIES_MAX):
        history.add(Series("group", str(number), "lag_count"), 0, 1.0)
    assert history.samples(LAG) == [], "the one that was added to the longest ago"
    assert history.samples(Series("group", "0", "lag_count"))
