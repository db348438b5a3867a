"""Numbers, ages and shortened texts as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.terminal_text import display_width, shortened_at_end, shortened_in_middle
from rmqadmin.core.units import age, due, duration, rate

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW_MS = 1_795_262_400_000


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (0, "now"), (999, "now"), (1000, "1s ago"), (4 * MINUTE_MS + 59_000, "4m ago"), (HOUR_MS, "1h ago"),
        (49 * HOUR_MS, "2d ago"), (24_000 * 24 * HOUR_MS, "24,000d ago"), (-5 * MINUTE_MS, "in 5m"), (-1, "now"),
    ],
)  # fmt: skip
def test_ages(length_ms: int, text: str) -> None:
    assert due(NOW_MS - length_ms, NOW_MS) == text
    if length_ms > -1000:
        assert age(NOW_MS - length_ms, NOW_MS) == text


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("ahead_ms", "text"), [(3000, "12:00:03"), (13 * HOUR_MS, "2026-11-22 01:00:00"), (999, "now")]
)
def test_what_was_stored_was_not_stored_in_the_future(ahead_ms: int, text: str) -> None:
    """A broker whose clock is ahead, and what came after `msg cat --follow` had begun, were shown as "in 3s"."""
    assert age(NOW_MS + ahead_ms, NOW_MS) == text


@pytest.mark.parametrize(
    ("length_ms", "text"), [(0, "0 ms"), (0.84, "0.8 ms"), (12.7, "13 ms"), (850, "850 ms"), (12_000.0, "12 s")]
)
def test_short_durations_keep_a_tenth(length_ms: float, text: str) -> None:
    assert duration(length_ms) == text


def test_rates_have_a_digit_behind_the_point() -> None:
    """``statsAll`` used to print 14 digits after the point."""
    assert [rate(value) for value in (None, 0.0, 16.666666666666668, 1234567.89)] == ["-", "0.0", "16.7", "1,234,567.9"]


@given(st.text(), st.integers(1, 40))
def test_a_shortened_text_fits(text: str, width: int) -> None:
    for shorten in (shortened_at_end, shortened_in_middle):
        short = shorten(text, width)
        assert display_width(short) <= width
        assert short == text or "…" in short


def test_an_id_keeps_both_of_its_ends() -> None:
    assert shortened_in_middle("7F000001041D4E0E", 9) == "7F00…4E0E"
    assert shortened_at_end("many words", 6) == "many …"
