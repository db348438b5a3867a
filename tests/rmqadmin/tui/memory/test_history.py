"""Samples over time: their bounds, their gaps, and the changes computed from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.tui.memory.history import (
    HELD_MS,
    SAMPLES_MAX,
    SERIES_MAX,
    NumberAt,
    NumberChange,
    NumberHistory,
    Series,
    per_column,
)

LAG = Series("group", "billing", "lag_count")


def made(*values: float | None) -> NumberHistory:
    """One sample a second, from time 0 on."""
    history = NumberHistory()
    for at, value in enumerate(values):
        history.add(LAG, at * 1000, value)
    return history


def test_a_change_is_from_the_first_to_the_last_sample_within_the_time() -> None:
    history = made(10.0, 20.0, 60.0)
    assert history.change(LAG, 60_000) == NumberChange(50.0, 2000)
    assert history.change(LAG, 1000) == NumberChange(40.0, 1000, is_whole=True)
    assert NumberChange(-30.0, 2000).per_s == -15.0


def test_one_sample_is_no_change() -> None:
    assert made().change(LAG, 60_000) is None
    assert made(10.0).change(LAG, 60_000) is None
    assert made(10.0, None).change(LAG, 60_000) is None


def test_a_change_does_not_reach_over_a_gap() -> None:
    """A broker died. A smaller sum over the others does not mean less lag."""
    assert made(100.0, 110.0, None, 50.0, 55.0).change(LAG, 60_000) == NumberChange(5.0, 1000)


def test_both_samples_and_series_are_bounded() -> None:
    history = made(*range(SAMPLES_MAX + 10))
    assert history.values(LAG, SAMPLES_MAX * 2) == list(range(10, SAMPLES_MAX + 10))
    assert history.values(LAG, 2) == [SAMPLES_MAX + 8, SAMPLES_MAX + 9]
    for number in range(SERIES_MAX):
        history.add(Series("group", str(number), "lag_count"), 0, 1.0)
    assert history.samples(LAG) == [], "the one that was added to the longest ago"
    assert history.samples(Series("group", "0", "lag_count"))


def test_a_sum_over_other_brokers_comes_behind_a_gap() -> None:
    history = NumberHistory()
    for at, (value, lacking) in enumerate([(9.0, ()), (4.0, ("b",)), (5.0, ("b",)), (11.0, ())]):
        history.add(LAG, at * 1000, value, lacking)
    assert history.values(LAG, 9) == [9.0, None, 4.0, 5.0, None, 11.0]


def test_samples_on_an_axis_of_time() -> None:
    samples = [NumberAt(0, 1.0), NumberAt(1000, 4.0), NumberAt(1500, 2.0), NumberAt(3000, None), NumberAt(4000, 3.0)]
    assert per_column(samples, 0, 5000, 5) == [1.0, 4.0, 2.0, None, 3.0]
    assert per_column(samples, 1000, 2000, 1) == [4.0]
    assert per_column([], 0, 5000, 2) == [None, None]
    late = per_column([NumberAt(0, 7.0)], 0, 4 * HELD_MS, 4)
    assert late == [7.0, None, None, None], "nobody has read it for long"


@given(st.lists(st.tuples(st.integers(0, 100_000), st.none() | st.floats(0, 1e9)), max_size=40), st.integers(1, 80))
def test_every_column_is_a_value_that_was_read(found: list[tuple[int, float | None]], width: int) -> None:
    samples = [NumberAt(*one) for one in sorted(found, key=lambda one: one[0])]
    columns = per_column(samples, 0, 100_000, width)
    assert len(columns) == width
    assert {value for value in columns if value is not None} <= {one.value for one in samples}
    known = [one.value for one in samples if one.value is not None]
    assert max((value for value in columns if value is not None), default=None) == max(known, default=None)


def test_where_nothing_was_read_for_a_while_a_line_has_a_gap() -> None:
    """The line of a row that was out of view for minutes used to look as if it had been read all the time."""
    history = made(1.0, 2.0)
    history.add(LAG, 1000 + HELD_MS, 3.0)
    assert history.values(LAG, 60) == [1.0, 2.0, 3.0]
    history.add(LAG, 1000 + 2 * HELD_MS + 1, 4.0)
    assert history.values(LAG, 60) == [1.0, 2.0, 3.0, None, 4.0]
    assert history.values(LAG, 2) == [None, 4.0]
    assert history.change(LAG, 600_000) == NumberChange(3.0, 1000 + 2 * HELD_MS + 1)


def test_a_second_value_of_one_moment_replaces_the_first() -> None:
    """In a recording, time stands still while a screen reads the same rows at each refresh."""
    history, series = NumberHistory(), Series("topic", "orders", "in_tps")
    for at_ms, value in ((1000, 1.0), (2000, 2.0), (2000, 3.0), (2000, 3.0)):
        history.add(series, at_ms, value)
    assert history.samples(series) == [(1000, 1.0), (2000, 3.0)]
