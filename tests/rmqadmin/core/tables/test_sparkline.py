"""Numbers over time, drawn as blocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.tables.sparkline import bars, sparkline


def test_the_newest_is_at_the_end_and_what_is_unknown_is_blank() -> None:
    assert sparkline([0.0, 1.0, None, 4.0, 8.0], 8) == "   ▁▂ ▅█"
    assert sparkline([1.0, 2.0, 3.0], 2) == "▆█"
    assert sparkline([], 3) == "   "


def test_the_top_is_the_largest_value_or_what_it_is_told() -> None:
    assert sparkline([5.0, 5.0], 2) == "██"
    assert sparkline([0.25, 0.5, 2.0], 3, top=1.0) == "▃▅█"
    assert sparkline([0.0, 0.0], 2) == "▁▁", "nothing is not unknown"


@given(st.lists(st.none() | st.floats(0, 1e9), max_size=30), st.integers(1, 20), st.integers(1, 6))
def test_bars_fill_their_lines(values: list[float | None], width: int, height: int) -> None:
    lines = bars(values, width, height)
    assert [len(line) for line in lines] == [width] * height
    for at, value in enumerate(values[-width:][::-1], 1):
        column = "".join(line[-at] for line in lines)
        assert column == column.rstrip() if value is not None else not column.strip()
        assert " " not in column.lstrip(), "a bar has no holes"


def test_bars_of_two_lines() -> None:
    assert bars([0.0, 4.0, 6.0, 8.0, None], 5, 2) == ["  ▄█ ", "▁███ "]
