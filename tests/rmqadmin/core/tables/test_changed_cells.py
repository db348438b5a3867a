"""What has changed since the last tick of a watch is reversed in a table, with and without colours."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import pieces
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqadmin.core.tables.layout import TableView

NOW_MS = 1_795_262_400_000


class GroupRow(Row, frozen=True):
    group: Annotated[str, doc("group", key=True)]
    lag_count: Annotated[int | None, doc("lag")] = 0
    seen_ms: Annotated[int | None, TIME, doc("when")] = None
    rate: Annotated[float, doc("rate")] = 0.0


class Sum(Row, frozen=True):
    lag_count: Annotated[int, doc("lag")]


class Groups(Result, frozen=True):
    """Groups."""

    row_type: ClassVar[type[Row]] = GroupRow
    found: list[GroupRow]

    def rows(self) -> Sequence[GroupRow]:
        return self.found

    def summary(self) -> Sum:
        return Sum(lag_count=sum(row.lag_count or 0 for row in self.found))


class Others(Groups, frozen=True):
    """Another answer."""


def shown(before: Result | None, *rows: GroupRow, has_color: bool = False, format: Format = Format.TABLE) -> list[str]:
    """The lines of the rows, and that of the summary."""
    view = TableView(now_ms=NOW_MS, has_color=has_color)
    lines = "".join(pieces(Groups(list(rows)), "c", format, view, before=before)).splitlines()
    return [line for line in lines[1:] if line]


def test_a_changed_cell_and_a_changed_sum_are_reversed_and_nothing_else() -> None:
    before = Groups([GroupRow(group="a", lag_count=4), GroupRow(group="b", lag_count=1)])
    lines = shown(before, GroupRow(group="b", lag_count=1), GroupRow(group="a", lag_count=5))
    assert lines == [
        "b        1  -      0.0",
        "a        \x1b[7m5\x1b[0m  -      0.0",
        "Lag: \x1b[7m6\x1b[0m",
    ]  # fmt: skip
    assert not any("\x1b" in line for line in shown(before, *before.found))
    assert not any("\x1b" in line for line in shown(None, *before.found))


def test_with_colours_a_cell_keeps_its_colour() -> None:
    before = Groups([GroupRow(group="a", lag_count=4)])
    assert "\x1b[33;7m5\x1b[0m" in shown(before, GroupRow(group="a", lag_count=5), has_color=True)[0]
    assert "\x1b[33m4\x1b[0m" in shown(before, GroupRow(group="a", lag_count=4), has_color=True)[0]


def test_what_a_person_would_not_see_is_no_change() -> None:
    """An age that grows is the same moment; a rate may be rounded to the same text; unknown is a value too."""
    before = Groups([GroupRow(group="a", seen_ms=NOW_MS - 90_000, rate=1.01)])
    assert "\x1b" not in shown(before, GroupRow(group="a", seen_ms=NOW_MS - 90_000, rate=1.02))[0]
    assert shown(before, GroupRow(group="a", seen_ms=NOW_MS, rate=1.01))[0].count("\x1b[7m") == 1
    assert "\x1b[7m-\x1b[0m" in shown(before, GroupRow(group="a", lag_count=None, seen_ms=NOW_MS - 90_000, rate=1.0))[0]


def test_a_new_row_is_reversed_and_rows_of_one_name_are_told_apart() -> None:
    before = Groups([GroupRow(group="a", lag_count=1), GroupRow(group="a", lag_count=2)])
    lines = shown(before, *before.found, GroupRow(group="a", lag_count=3))
    assert ["\x1b[7m" in line for line in lines] == [False, False, True, True]
    assert lines[2].startswith("\x1b[7ma\x1b[0m")


def test_nothing_is_marked_where_the_earlier_answer_was_another_kind_or_the_format_has_no_marks() -> None:
    rows = [GroupRow(group="a", lag_count=5)]
    assert not any("\x1b" in line for line in shown(Others([GroupRow(group="a", lag_count=4)]), *rows))
    before = Groups([GroupRow(group="a", lag_count=4)])
    for format in (Format.TSV, Format.CSV, Format.JSONL):
        assert not any("\x1b" in line for line in shown(before, *rows, format=format))
