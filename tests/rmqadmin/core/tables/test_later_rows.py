"""Rows that come after a table was laid out."""

from __future__ import annotations

from typing import Annotated

from rmqadmin.core.results import Row, columns, doc
from rmqadmin.core.tables.layout import Layout, TableView


class Step(Row, frozen=True):
    name: Annotated[str, doc("what it is", key=True)]
    count: Annotated[int, doc("how many")]
    text: Annotated[str, doc("what it says")]


FIRST, LATER = Step(name="a", count=7, text="x" * 40), Step(name="b", count=1_234_567, text="y" * 40)


def lines(width: int | None, *, is_live: bool = False) -> list[str]:
    layout = Layout(columns(Step), [FIRST], TableView(width=width), is_live=is_live)
    return [layout.head(), layout.line(FIRST), layout.line(LATER), layout.line(FIRST)]


def test_a_number_that_has_no_room_takes_it_from_the_text_behind_it() -> None:
    """``277 ms`` used to become ``277 …`` in a column whose first value was ``82 ms``."""
    head, first, later, again = lines(40)
    assert "1,234,567" in later
    assert first == again
    assert {len(line.rstrip("\n")) for line in (first, later)} == {40}
    assert head.startswith("NAME  COUNT  TEXT")


def test_what_is_not_for_a_terminal_is_not_cut() -> None:
    assert lines(None)[2] == f"b     1,234,567  {'y' * 40}\n"


def test_live_numbers_have_room_from_the_first_row_on() -> None:
    assert lines(60, is_live=True)[0] == "NAME   COUNT  TEXT\n"
