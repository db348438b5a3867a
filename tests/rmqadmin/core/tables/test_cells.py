"""Values as text and as blocks, and columns fitted to a terminal: they always fit, and the important ones stay."""

from typing import Annotated, Any

from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.results import Importance, Row, columns, doc
from rmqadmin.core.tables.layout import GAP, Wish, fit
from rmqadmin.core.tables.sparkline import bars, sparkline
from rmqadmin.core.units import machine_text, person_text


class Configured(Row, frozen=True):
    config: Annotated[dict[str, Any], doc("by Apache's names")]


def test_what_is_not_set_within_a_value_is_not_called_as_python_calls_it() -> None:
    """`exportMetadata` used to show ``subscriptionDataSet=None``, also in csv."""
    (column,) = columns(Configured)
    value = {"subscriptionDataSet": None, "type": "CUSTOMIZED"}
    assert person_text(value, column, None) == "subscriptionDataSet=none type=CUSTOMIZED"
    assert machine_text(value, column) == "subscriptionDataSet= type=CUSTOMIZED"


def test_the_newest_is_at_the_end_and_what_is_unknown_is_blank() -> None:
    assert sparkline([0.0, 1.0, None, 4.0, 8.0], 8) == "   ▁▂ ▅█"
    assert sparkline([1.0, 2.0, 3.0], 2) == "▁█"
    assert sparkline([], 3) == "   "


def test_a_line_runs_from_the_least_to_the_largest_value_and_a_small_change_is_flat() -> None:
    assert sparkline([5.0, 7.5, 10.0], 3) == "▁▅█"
    assert sparkline([95.0, 100.0], 2) == "▄▄"
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
    assert bars([0.0, 4.0, 6.0, 8.0, None], 5, 2) == [" ▁▄█ ", "▁███ "]


def wish(whole: int, least: int = 6, importance: Importance = Importance.USUAL) -> Wish:
    return Wish(whole, max(least, 13), least, importance)


WISHES = st.lists(
    st.builds(wish, st.integers(1, 5000), st.integers(1, 12), st.sampled_from(Importance)), min_size=1, max_size=12
)


@given(WISHES, st.integers(1, 300))
def test_the_columns_fit_and_one_is_always_there(wishes: list[Wish], room: int) -> None:
    shown = [width for width in fit(wishes, room) if width]
    assert shown
    assert sum(shown) + GAP * (len(shown) - 1) <= room


@given(WISHES, st.integers(1, 300))
def test_no_column_is_left_out_while_a_less_important_one_stays(wishes: list[Wish], room: int) -> None:
    widths = fit(wishes, room)
    left_out = [each.importance for each, width in zip(wishes, widths, strict=True) if not width]
    kept = [each.importance for each, width in zip(wishes, widths, strict=True) if width]
    assert not left_out or max(kept) <= min(left_out)


def test_what_fits_is_whole() -> None:
    assert fit([wish(10), wish(20), wish(6)], 40) == [10, 20, 6]


def test_the_widest_is_shortened_first() -> None:
    assert fit([wish(10), wish(50), wish(20)], 60) == [10, 26, 20]


def test_a_column_is_left_out_rather_than_made_unreadable() -> None:
    assert fit([wish(13), wish(30), wish(13)], 40) == [13, 25, 0]
    minor = wish(13, importance=Importance.MINOR)
    assert fit([minor, wish(13), wish(13)], 30) == [0, 13, 13]


def test_vital_columns_are_shortened_beyond_that() -> None:
    vital = wish(30, importance=Importance.VITAL)
    assert fit([vital, vital], 20) == [9, 9]


def test_a_sparkline_yields_before_names_are_shortened() -> None:
    """At 200 columns the sparkline took 60 cells, blank at first, and cut the names beside it."""
    trend = Wish(60, 6, 4, Importance.MINOR, yields_to=20)
    assert fit([wish(70), trend], 100) == [70, 28]
    assert fit([wish(70), trend], 60) == [38, 20]
    assert fit([wish(70), trend], 30) == [14, 14]
