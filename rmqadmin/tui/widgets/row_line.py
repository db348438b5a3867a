"""Draws a row of a table, and the line of titles, as segments for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style

from rmqadmin.core.results import Shape
from rmqadmin.core.tables.widths import GAP
from rmqadmin.core.terminal_text import shortened_at_end
from rmqadmin.core.units import elapsed
from rmqadmin.tui.widgets.rows import Line, Rows

NOT_ASKED = "·"
"""Shown in a cell whose part has not been read yet."""

_INDENT, _GAP = " ", " " * GAP
_CURSOR, _MARKED, _CURSOR_MARKED = "›", "●", "◉"
"""Shown in the indent, because a terminal may have no colours."""

INDENT_WIDTH = len(_INDENT)
_RISES, _FALLS = "▲ ", "▼ "
"""Shown in the gap after the title of the column that rows are sorted by."""

AGE_WIDTH = 8
_AGE_TITLE = "age"
_UNDERLINED = Style(underline=True)

StyleOf = Callable[[str], Style]
"""Returns what a component of the table, or a mark, adds to the style of a line."""


def header_line(rows: Rows, style: Style, width: int, *, with_age: bool) -> list[Segment]:
    """The line of titles. The letter that sorts by a column is underlined."""
    segments = [Segment(_INDENT, style)]
    for at, cell_width in rows.cells.shown:
        title = rows.columns[at].title
        cell, gap = rows.cells.cell(at, cell_width, title), _GAP
        if rows.order is not None and rows.order.at == at:
            gap = _FALLS if rows.order.descends else _RISES
        letter_at = rows.cells.letter_at(at)
        if letter_at is None or title not in cell:
            segments.append(Segment(cell + gap, style))
            continue
        place = cell.index(title) + letter_at
        before, letter, after = cell[:place], cell[place], cell[place + 1 :] + gap
        segments += [Segment(before, style), Segment(letter, style + _UNDERLINED), Segment(after, style)]
    if with_age:
        segments.append(Segment(_at_end(segments, _AGE_TITLE, width), style))
    return segments


def row_line(
    rows: Rows, line: Line, style: Style, style_of: StyleOf, width: int, *, has_cursor: bool, with_age: bool
) -> list[Segment]:
    """One row. Stale cells are dim, with the age of the oldest at the end. An error takes the place of the cells that
    it leaves unknown."""
    stale = style + style_of("stale")
    segments = [_beginning(is_marked=line.key in rows.marked, has_cursor=has_cursor, style=style, style_of=style_of)]
    for part, run in groupby(rows.cells.shown, _part_shown(rows, line)):
        if part in line.errors:
            room = sum(cell_width + GAP for _, cell_width in run)
            text = shortened_at_end(line.errors[part], room - GAP)
            error_style = stale if rows.is_stale(line, part) else style + style_of("bad")
            segments.append(Segment(set_cell_size(text, room), error_style))
        else:
            segments += _cells(rows, line, list(run), style, style_of)
    if with_age:
        oldest_s = rows.oldest_s(line)
        age = "" if oldest_s is None else elapsed(oldest_s * 1000)
        segments.append(Segment(_at_end(segments, age, width), stale))
    return segments


def _beginning(*, is_marked: bool, has_cursor: bool, style: Style, style_of: StyleOf) -> Segment:
    if is_marked:
        return Segment(_CURSOR_MARKED if has_cursor else _MARKED, style + style_of("new"))
    return Segment(_CURSOR if has_cursor else _INDENT, style)


def _part_shown(rows: Rows, line: Line) -> Callable[[tuple[int, int]], str]:
    """A function that gives the part of each column in turn. An error also takes the place of sparklines between its
    cells."""
    before = ""

    def part(one: tuple[int, int]) -> str:
        nonlocal before
        column = rows.columns[one[0]]
        before = before if column.kind is Shape.TREND and before in line.errors else column.part
        return before

    return part


def _cells(
    rows: Rows, line: Line, columns: Sequence[tuple[int, int]], style: Style, style_of: StyleOf
) -> list[Segment]:
    stale = style + style_of("stale")
    segments = []
    for at, width in columns:
        column, text, mark = rows.columns[at], line.texts[at], line.marks[at]
        if text is None:
            text, cell_style = NOT_ASKED, stale
        elif rows.is_stale(line, column.part, column.every):
            cell_style = stale
        else:
            name = mark.name.lower() if mark else "line" if column.kind is Shape.TREND else None
            cell_style = style + style_of(name) if name else style
        segments.append(Segment(rows.cells.cell(at, width, text) + _GAP, cell_style))
    return segments


def _at_end(segments: Sequence[Segment], text: str, width: int) -> str:
    """A text, padded so that it stands at the end of the line."""
    return text.rjust(width - sum(segment.cell_length for segment in segments))
