"""Thresholds: each valid text has its meaning, and every other text is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.health.thresholds import Quantity, parse_thresholds
from rmqproto.errors import UsageError

ALL = tuple(Quantity)
MULTIPLES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@given(st.integers(0, 10**6), st.sampled_from(sorted(MULTIPLES)))
def test_a_count_is_a_number_of_thousands(number: int, multiple: str) -> None:
    found = parse_thresholds(f"{number}{multiple}", "-w", ALL)
    assert found == {Quantity.COUNT: number * MULTIPLES[multiple]}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(UNITS_MS))), min_size=1, max_size=3))
def test_a_time_is_a_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    expected = sum(number * UNITS_MS[unit] for number, unit in parts)
    assert parse_thresholds(text, "-w", ALL) == {Quantity.TIME_MS: expected}


@given(st.integers(0, 100), st.integers(0, 99), st.booleans())
def test_a_percentage_needs_its_sign_unless_nothing_else_makes_sense(whole: int, part: int, has_sign: bool) -> None:
    text = f"{whole}.{part:02d}{'%' if has_sign else ''}"
    (value,) = parse_thresholds(text, "-w", [Quantity.PERCENT]).values()
    assert value == pytest.approx(whole + part / 100)
    assert (Quantity.PERCENT in parse_thresholds(text, "-w", ALL)) == has_sign


@given(st.text(max_size=30))
def test_any_text_is_a_threshold_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        found = parse_thresholds(text, "--warning", ALL)
        assert found
        assert all(value >= 0 for value in found.values())


def test_a_count_and_a_time_together() -> None:
    assert parse_thresholds("10k, 1h30m", "-c", ALL) == {Quantity.COUNT: 10_000, Quantity.TIME_MS: 5_400_000}


@pytest.mark.parametrize("text", ["", ",", "-5m", "+5m", "5", "80%", "1e3", "5 m", "10K", "nan", "5m,1h", "٣m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="-w"):
        parse_thresholds(text, "-w", [Quantity.TIME_MS])
