"""Draws a row of a table, and the line of titles, as a strip for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rmqadmin.core.results import Shape
from rmqadmin.core.tables.widths import GAP
from rmqadmin.core.terminal_text import shortened_at_end
from rmqadmin.core.units import elapsed
from rmqadmin.tui.widgets.tables.rows import Line, Rows

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
"""Returns the style of a cell in this line: a component of the table or a mark, or an empty name for a usual cell."""


class LineText:
    """Collects the text of a line. Neighbours in one style become one segment, because most work with a line is done
    for each of its segments. But a text that is not ASCII stays alone: Rich measures such texts character by character,
    and a short one comes again and is cached."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.width = 0
        self._texts: list[str] = []
        self._style, self._joins = Style.null(), False

    def add(self, text: str, width: int, style: Style) -> None:
        """Adds a text of ``width`` cells."""
        if style is not self._style or not (text.isascii() and self._joins):
            self._end_segment()
            self._style, self._joins = style, text.isascii()
        self._texts.append(text)
        self.width += width

    def strip(self, width: int, style: Style) -> Strip:
        """The line, cut or filled up to ``width`` cells."""
        if self.width < width:
            self.add(" " * (width - self.width), width - self.width, style)
        self._end_segment()
        strip = Strip(self.segments, self.width)
        return strip if self.width == width else strip.crop(0, width)

    def _end_segment(self) -> None:
        if self._texts:
            self.segments.append(Segment("".join(self._texts), self._style))
            self._texts = []


def header_line(rows: Rows, style: Style, width: int, *, with_age: bool) -> Strip:
    """The line of titles. The letter that sorts by a column is underlined."""
    text, underlined = LineText(), style + _UNDERLINED
    text.add(_INDENT, INDENT_WIDTH, style)
    for at, cell_width in rows.cells.shown:
        title = rows.columns[at].title
        cell, gap = rows.cells.cell(at, cell_width, title), _GAP
        if rows.order is not None and rows.order.at == at:
            gap = _FALLS if rows.order.descends else _RISES
        letter_at = rows.cells.letter_at(at)
        if letter_at is None or title not in cell:
            text.add(cell + gap, cell_width + GAP, style)
            continue
        place = cell.index(title) + letter_at
        text.add(cell[:place], place, style)
        text.add(cell[place], 1, underlined)
        text.add(cell[place + 1 :] + gap, cell_width + GAP - place - 1, style)
    if with_age:
        text.add(_AGE_TITLE.rjust(width - text.width), max(len(_AGE_TITLE), width - text.width), style)
    return text.strip(width, style)


def row_line(rows: Rows, line: Line, style_of: StyleOf, width: int, *, has_cursor: bool, with_age: bool) -> Strip:
    """One row. Stale cells are dim, with the age of the oldest at the end. An error takes the place of the cells that
    it leaves unknown."""
    text = LineText()
    _begin(text, is_marked=line.key in rows.marked, has_cursor=has_cursor, style_of=style_of)
    if line.errors:
        for part, run in groupby(rows.cells.shown, _part_shown(rows, line)):
            if part in line.errors:
                room = sum(cell_width + GAP for _, cell_width in run)
                error = set_cell_size(shortened_at_end(line.errors[part], room - GAP), room)
                text.add(error, room, style_of("stale" if rows.is_stale(line, part) else "bad"))
            else:
                _add_cells(text, rows, line, run, style_of)
    else:
        _add_cells(text, rows, line, rows.cells.shown, style_of)
    if with_age:
        oldest_s = rows.oldest_s(line)
        age = "" if oldest_s is None else elapsed(oldest_s * 1000)
        text.add(age.rjust(width - text.width), max(len(age), width - text.width), style_of("stale"))
    return text.strip(width, style_of(""))


def _begin(text: LineText, *, is_marked: bool, has_cursor: bool, style_of: StyleOf) -> None:
    if is_marked:
        text.add(_CURSOR_MARKED if has_cursor else _MARKED, INDENT_WIDTH, style_of("new"))
    else:
        text.add(_CURSOR if has_cursor else _INDENT, INDENT_WIDTH, style_of(""))


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


def _add_cells(text: LineText, rows: Rows, line: Line, columns: Iterable[tuple[int, int]], style_of: StyleOf) -> None:
    stale: dict[tuple[str, float], bool] = {}
    for at, width in columns:
        column, cell, mark = rows.columns[at], line.texts[at], line.marks[at]
        if (age := (column.part, column.every)) not in stale:
            stale[age] = rows.is_stale(line, *age)
        if cell is None:
            cell, name = NOT_ASKED, "stale"
        elif stale[age]:
            name = "stale"
        elif mark is not None:
            name = mark.name.lower()
        else:
            name = "line" if column.kind is Shape.TREND else ""
        text.add(rows.cells.cell(at, width, cell) + _GAP, width + GAP, style_of(name))
