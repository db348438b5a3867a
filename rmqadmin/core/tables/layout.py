"""A table as lines: its columns, their widths, and each row as one line.

The widths fit the rows present when the table is laid out. Later rows keep to them, except that a number is never cut,
because that would make it another number. On a terminal every row is one line: columns are first shortened where
possible, then left out, the least important first.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from rmqadmin.core.results import Importance, ResultColumn, Row, Shape
from rmqadmin.core.results import columns as type_columns
from rmqadmin.core.tables.marks import Mark, mark, styled
from rmqadmin.core.terminal_text import (
    display_width,
    printable,
    shortened_at_end,
    shortened_by_clause,
    shortened_in_middle,
    wrapped_lines,
)
from rmqadmin.core.units import person_text

GAP = 2
"""Blanks between two columns."""


class Wish(msgspec.Struct, frozen=True):
    """What one column wants, in cells. ``whole``: the width of its longest cell. ``readable``: how far it may be
    shortened before other columns are left out. ``least``: the smallest width at which it is shown. ``yields_to``: how
    far it is shortened before any other column is; None for a column that does not yield."""

    whole: int
    readable: int
    least: int
    importance: Importance
    yields_to: int | None = None


def fit(wishes: Sequence[Wish], room: int, *, keeps_all: bool = False) -> list[int]:
    """The width of each column; 0 for one that is left out. The first of the most important columns always stays.
    ``keeps_all``: all stay, each at its smallest width if there is no room for more."""
    if keeps_all:
        vital = [msgspec.structs.replace(wish, importance=Importance.VITAL) for wish in wishes]
        return _shortened(vital, room) or [min(wish.whole, wish.least) for wish in wishes]
    kept = list(range(len(wishes)))
    while True:
        widths = _shortened([wishes[at] for at in kept], room)
        if widths is not None:
            found = dict(zip(kept, widths, strict=True))
            return [found.get(at, 0) for at in range(len(wishes))]
        if len(kept) == 1:
            return [max(1, room) if at == kept[0] else 0 for at in range(len(wishes))]
        kept.remove(max(kept, key=lambda at: _goes(wishes[at].importance, at)))


def _goes(importance: Importance, at: int) -> tuple[int, int]:
    """The greatest is left out first: from the right, but of what is repeated from the left, where names stand."""
    return importance, -at if importance is Importance.REPEATED else at


def _shortened(wishes: Sequence[Wish], room: int) -> list[int] | None:
    """Widths that fit. None if a column has to be left out first."""
    space = room - GAP * (len(wishes) - 1)
    only_vital = all(wish.importance is Importance.VITAL for wish in wishes)
    floors = [min(wish.whole, wish.least if only_vital else wish.readable) for wish in wishes]
    if sum(floors) > space:
        return None
    widths = [max(floor, min(wish.whole, room)) for wish, floor in zip(wishes, floors, strict=True)]
    firsts = [wish.whole if wish.yields_to is None else wish.yields_to for wish in wishes]
    while sum(widths) > space:
        over = [at for at in range(len(widths)) if widths[at] > max(firsts[at], floors[at])]
        over = over or [at for at in range(len(widths)) if widths[at] > floors[at]]
        widths[max(over, key=lambda at: widths[at])] -= 1
    return widths


_FLOORS = {Shape.NAME: (20, 5), Shape.ID: (13, 9), Shape.PROSE: (20, 6), Shape.CLAUSES: (20, 6), Shape.TREND: (6, 4)}
"""The width that cells may be shortened to before other columns are left out, and the smallest width."""

_TREND_YIELDS_TO = 10
"""A sparkline only takes room that is otherwise blank: names and words are not shortened to show more of the past."""

_SHORTENED: dict[Shape, Callable[[str, int], str]] = {
    Shape.NUMBER: shortened_at_end,
    Shape.NAME: shortened_in_middle,
    Shape.ID: shortened_in_middle,
    Shape.PROSE: shortened_at_end,
    Shape.CLAUSES: shortened_by_clause,
    Shape.TREND: lambda text, width: text[-width:],
}


def wish(shape: Shape, whole: int, importance: Importance, *, readable: int | None = None) -> Wish:
    """The wish of a column whose longest cell takes ``whole`` cells. ``readable`` replaces the usual limit of its shape
    for shortening before others are left out."""
    usual, least = _FLOORS.get(shape, (whole, whole))
    yields_to = _TREND_YIELDS_TO if shape is Shape.TREND else None
    return Wish(whole, usual if readable is None else readable, least, importance, yields_to)


def shortened(shape: Shape, text: str, width: int) -> str:
    """The text in at most ``width`` cells (1 or more) of the terminal."""
    return _SHORTENED[shape](text, width)


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
    return (row.__class__.__name__, *(str(getattr(row, one.name)) for one in type_columns(row.__class__) if one.is_key))


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
        texts = {column: cell_texts(column, rows, view) for column in columns}
        wishes = [self._wish(column, texts[column]) for column in columns]
        widths = [wish.whole for wish in wishes] if view.width is None else fit(wishes, view.width, keeps_all=keeps_all)
        self.shown = [(column, width) for column, width in zip(columns, widths, strict=True) if width]
        found = zip(*(texts[column] for column, _ in self.shown), strict=True)
        self._measured = {id(row): (row, cells) for row, cells in zip(rows, found, strict=False)}
        """The texts of the first rows, which are about to be shown. A row that is kept here keeps its id."""
        self._reasons = [] if view.width is None or is_live else [one for one in columns if one.name in REASONS]
        self._cut: list[str] = []
        self.left_out = [column.heading.upper() for column, width in zip(columns, widths, strict=True) if not width]

    def head(self) -> str:
        styles = (Mark.HEAD,) if self.view.has_color else ()
        cells = [(column.heading.upper(), styles) for column, _ in self.shown]
        return self._line(cells)

    def line(self, row: Row) -> str:
        _, texts = self._measured.pop(id(row), (row, None))
        if texts is None:
            texts = tuple(cell_texts(column, [row], self.view)[0] for column, _ in self.shown)
        styles: list[tuple[Mark, ...]] = [()] * len(texts)
        if self.view.has_color:
            styles = [_marks(column.name, row.shown(column)) for column, _ in self.shown]
        if self._before is not None:
            earlier = self._before.take(row)
            styles = [
                (*style, Mark.CHANGED) if earlier is None or has_changed(row, earlier, column, self.view) else style
                for style, (column, _) in zip(styles, self.shown, strict=True)
            ]
        for column in self._reasons:
            self._note_cut(column, row)
        return self._line(list(zip(texts, styles, strict=True)))

    def _note_cut(self, column: ResultColumn, row: Row) -> None:
        """Keeps the text of a reason for which its column has no room."""
        (text,) = cell_texts(column, [row], self.view)
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

    def foot(self) -> Iterator[str]:
        """A line about columns that did not fit, if some did not."""
        if not self.left_out or self.view.width is None:
            return
        text = f"({len(self.left_out)} more with --output wide: {', '.join(self.left_out)})"
        yield styled(shortened_at_end(text, self.view.width), *((Mark.DIM,) if self.view.has_color else ())) + "\n"

    def _wish(self, column: ResultColumn, texts: Sequence[str]) -> Wish:
        head = column.heading
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
            shown = styled(text, *styles) if styles else text
            parts.append(blanks + shown if column.is_number else shown + blanks)
        return (" " * GAP).join(parts).rstrip() + "\n"


def has_changed(row: Row, earlier: Row, column: ResultColumn, view: TableView) -> bool:
    """Whether a person sees another value than in the earlier row. An age that only grew is the same value, and so is a
    rate that is rounded to the same text."""
    if row.shown(column) == earlier.shown(column):
        return False
    text, before = cell_texts(column, [row, earlier], view)
    return text != before


def cell_texts(column: ResultColumn, rows: Sequence[Row], view: TableView) -> list[str]:
    """What a person sees of a column, row by row."""
    values = [(row.shown(column), row.column_of(column)) for row in rows]
    texts = [person_text(value, kind, view.now_ms) for value, kind in values]
    return [printable(text) for text in texts]


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
        shown = styled(text, *styles) if styles else text
        label = column.heading
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
