"""A table as lines: its columns, their widths, and each row as one line.

The widths fit the rows present when the table is laid out. Later rows keep to them, except that a number is never cut,
because that would make it another number.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rmqadmin.core.results import Importance, ResultColumn, Row, Shape, columns
from rmqadmin.core.results import columns as type_columns
from rmqadmin.core.tables.headings import words
from rmqadmin.core.tables.marks import Mark, mark, styled
from rmqadmin.core.tables.values import person_text
from rmqadmin.core.tables.widths import GAP, Wish, fit, shortened, wish
from rmqadmin.core.terminal_text import display_width, printable, shortened_at_end, wrapped_lines


class EarlierRows:
    def __init__(self, rows: Sequence[Row]):
        self._by_name: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row in reversed(rows):
            self._by_name[_name(row)].append(row)

    def take(self, row: Row) -> Row | None:
        """The earlier row of the same name; None if there was none. Of several with one name, each is taken once, in
        their order."""
        left = self._by_name.get(_name(row))
        return left.pop() if left else None


def _name(row: Row) -> tuple[str, ...]:
    return (row.__class__.__name__, *(str(getattr(row, one.name)) for one in columns(row.__class__) if one.is_key))


class TableView(msgspec.Struct, frozen=True):
    """How a person sees a table. ``width``: cells of the terminal, None for no limit. ``now_ms``: what ages are
    relative to, None to show points in time."""

    width: int | None = None
    now_ms: int | None = None
    has_color: bool = False


REASONS = frozenset({"error", "problem", "hint"})
"""Fields that say what is wrong and what to do. Their ends matter."""

_INDENT = 2

FIRST_PROSE_CELLS = 16
"""What is always left of a text that is first, such as a body."""

LIVE_NUMBER_CELLS = 6
"""Minimum width of numbers that arrive over time: ``9.9 ms`` may be followed by ``277 ms``."""


class Layout:
    """``columns`` fitted to a view and to the first ``rows``. Lines end with a line feed. ``is_live``: more rows are
    expected. ``keeps_all``: no column is left out, even if lines then exceed the view.
    ``before``: the rows of an earlier answer; cells that have changed since are reversed, on any terminal, and so are
    new rows."""

    def __init__(
        self,
        columns: Sequence[ResultColumn],
        rows: Sequence[Row],
        view: TableView,
        *,
        is_live: bool = False,
        keeps_all: bool = False,
        before: Sequence[Row] | None = None,
    ):
        self.view = view
        self._before = None if before is None else EarlierRows(before)
        self._number_cells = LIVE_NUMBER_CELLS if is_live else 0
        texts = {column: [self._text(column, row) for row in rows] for column in columns}
        wishes = [self._wish(column, texts[column]) for column in columns]
        widths = [wish.whole for wish in wishes] if view.width is None else fit(wishes, view.width, keeps_all=keeps_all)
        self.shown = [(column, width) for column, width in zip(columns, widths, strict=True) if width]
        found = zip(*(texts[column] for column, _ in self.shown), strict=True)
        self._measured = {id(row): (row, cells) for row, cells in zip(rows, found, strict=False)}
        """The texts of the first rows, which are about to be shown. A row that is kept here keeps its id."""
        self._reasons = [] if view.width is None or is_live else [one for one in columns if one.name in REASONS]
        self._cut: list[str] = []
        self.left_out = [words(column.name).upper() for column, width in zip(columns, widths, strict=True) if not width]

    def head(self) -> str:
        styles = (Mark.HEAD,) if self.view.has_color else ()
        cells = [(words(column.name).upper(), styles) for column, _ in self.shown]
        return self._line(cells)

    def line(self, row: Row) -> str:
        _, texts = self._measured.pop(id(row), (row, None))
        if texts is None:
            texts = tuple(self._text(column, row) for column, _ in self.shown)
        styles: list[tuple[Mark, ...]] = [()] * len(texts)
        if self.view.has_color:
            styles = [_marks(column.name, row.shown(column)) for column, _ in self.shown]
        if self._before is not None:
            changed = self._changed(row, self._before.take(row))
            styles = [
                (*style, Mark.CHANGED) if is_new else style for style, is_new in zip(styles, changed, strict=True)
            ]
        for column in self._reasons:
            self._note_cut(column, row)
        return self._line(list(zip(texts, styles, strict=True)))

    def _changed(self, row: Row, earlier: Row | None) -> list[bool]:
        """Which of the shown cells differ, for a person, from the earlier row's."""
        return [earlier is None or has_changed(row, earlier, column, self.view) for column, _ in self.shown]

    def _note_cut(self, column: ResultColumn, row: Row) -> None:
        """Keeps the text of a reason for which its column has no room."""
        text = self._text(column, row)
        room = next((width for shown, width in self.shown if shown is column), 0)
        if getattr(row, column.name, None) is not None and display_width(text) > room:
            names = [str(getattr(row, one.name)) for one in type_columns(row.__class__) if one.is_key]
            label = ", hint" if column.name == "hint" else ""
            self._cut.append(f"{'/'.join(names)}{label}: {text}")

    def reasons(self) -> Iterator[str]:
        """Lines below the table: the reasons that were cut in it, whole and each with its row's name."""
        if self._cut:
            yield "\n"
        for text in self._cut:
            yield from wrapped_lines(text, self.view.width, _INDENT)

    def foot(self) -> str:
        """A line about columns that did not fit; empty if all did."""
        if not self.left_out or self.view.width is None:
            return ""
        text = f"({len(self.left_out)} more with --output wide: {', '.join(self.left_out)})"
        return styled(shortened_at_end(text, self.view.width), *((Mark.DIM,) if self.view.has_color else ())) + "\n"

    def _wish(self, column: ResultColumn, texts: Sequence[str]) -> Wish:
        head = words(column.name)
        whole = max(map(len if all(map(str.isascii, (head, *texts))) else display_width, (head, *texts)))
        if column.is_number:
            whole = max(whole, self._number_cells)
        is_repeated = column.importance is Importance.MINOR and len(texts) > 1 and len(set(texts)) == 1
        importance = Importance.REPEATED if is_repeated else column.importance
        return wish(column.shape, whole, importance, readable=self._readable(column, whole))

    def _readable(self, column: ResultColumn, whole: int) -> int | None:
        """How far a column that is first may be shortened; prose grows with the terminal. None for the usual limit."""
        if not column.is_first:
            return None
        return whole if column.shape is not Shape.PROSE else max(FIRST_PROSE_CELLS, (self.view.width or 0) // 5)

    def _text(self, column: ResultColumn, row: Row) -> str:
        return _cell_text(column, row, self.view)

    def _line(self, cells: Sequence[tuple[str, tuple[Mark, ...]]]) -> str:
        """One line. The last cell is not padded, so that no line ends with blanks. If a number exceeds its width, the
        texts after it give up the room."""
        parts, surplus = [], 0
        is_cut = self.view.width is not None
        for (text, styles), (column, width) in zip(cells, self.shown, strict=True):
            room = width
            if is_cut and (not column.is_number or len(cells) == 1):
                room = max(1, width - surplus)
                text = shortened(column.shape, text, room)
            cell_count = display_width(text)
            if surplus or cell_count > room:
                surplus = max(0, surplus - (width - room)) + max(0, cell_count - room)
            blanks = " " * (room - cell_count)
            shown = styled(text, *styles)
            parts.append(blanks + shown if column.is_number else shown + blanks)
        return (" " * GAP).join(parts).rstrip() + "\n"


def has_changed(row: Row, earlier: Row, column: ResultColumn, view: TableView) -> bool:
    """Whether a person sees another value than in the earlier row. An age that only grew is the same value, and so is a
    rate that is rounded to the same text."""
    if row.shown(column) == earlier.shown(column):
        return False
    return _cell_text(column, row, view) != _cell_text(column, earlier, view)


def _cell_text(column: ResultColumn, row: Row, view: TableView) -> str:
    return printable(person_text(row.shown(column), row.column_of(column), view.now_ms))


def _marks(field: str, value: Any) -> tuple[Mark, ...]:
    found = mark(field, value)
    return () if found is None else (found,)


def summary_lines(
    columns: Sequence[ResultColumn], summary: Row, view: TableView, before: Row | None = None
) -> list[str]:
    """The known fields of a summary, one per line and uncut: paths and names in it are for copying. ``before``: an
    earlier summary; values that have changed since are reversed."""
    lines = []
    for column in columns:
        value = getattr(summary, column.name)
        if value is None:
            continue
        text = printable(person_text(value, column, view.now_ms))
        styles = _marks(column.name, value) if view.has_color else ()
        if before is not None and has_changed(summary, before, column, view):
            styles = (*styles, Mark.CHANGED)
        shown = styled(text, *styles)
        label = words(column.name)
        lines.append(f"{label[0].upper()}{label[1:]}: {shown}\n")
    return lines


def table_lines(rows: Sequence[Row], width: int | None, now_ms: int | None) -> Iterator[str]:
    """A table of its own inside a longer text; nothing without rows. Wide columns are left out, and sparse ones without
    a value."""
    if not rows:
        return
    shown = [
        column
        for column in type_columns(type(rows[0]))
        if not column.is_wide and not (column.is_sparse and all(getattr(row, column.name) is None for row in rows))
    ]
    layout = Layout(shown, rows, TableView(width, now_ms))
    yield layout.head()
    yield from map(layout.line, rows)
