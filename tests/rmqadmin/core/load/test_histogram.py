"""A histogram's percentiles match the lengths that went in, to one part in a thousand."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.load.histogram import Histogram

lengths = st.lists(st.integers(0, 10**9), min_size=1, max_size=200)


def histogram(values: list[int]) -> Histogram:
    found = Histogram()
    for value in values:
        found.add(value)
    return found


@given(lengths, st.floats(1, 100))
def test_a_percentile_is_that_of_the_sorted_lengths(values: list[int], percent: float) -> None:
    (found,) = histogram(values).percentiles_ms((percent,))
    exact = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    assert found is not None
    assert exact * 0.999 - 1 <= found * 1000 <= exact


@given(lengths, lengths)
def test_merged_is_as_if_all_went_into_one(first: list[int], second: list[int]) -> None:
    merged = histogram(first)
    merged.merge(histogram(second))
    assert merged.counts == histogram(first + second).counts
    assert merged.total == len(first) + len(second)


def test_percentiles_of_nothing_are_unknown() -> None:
    assert Histogram().percentiles_ms((50.0, 100.0)) == [None, None]
