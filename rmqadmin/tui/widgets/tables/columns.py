"""The columns of tables: titles, text and marks, and which of them fit. Titles, formats and marks are those of the
commands' tables (``core.tables``), unless a column says otherwise. Independent of screens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from rich.cells import cell_len, set_cell_size

from rmqadmin.core.results import Importance, ResultColumn, Row, Shape, columns, heading
from rmqadmin.core.tables import marks
from rmqadmin.core.tables.layout import fit, shortened, wish
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import UNKNOWN, Described, at_least, person_text

VITAL, MINOR = Importance.VITAL, Importance.MINOR
"""Columns that a narrow terminal keeps, and columns that it leaves out first."""

BASE, NUMBERS = "base", "numbers"
"""The part that every row has, and the part that is only read for rows in view."""

JUDGED = "judged"
"""The part that says what is wrong with a row. The worst rows come first, unless the user sorts them."""

CELL_WIDTH_MAX = 200

NAME_READABLE = 44
"""In a list, other columns go before a name is shorter than this: most names differ at their end."""

NOT_KNOWN = "?"
"""Where a dash says that there is nothing."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column. It shows the field ``name`` of its part, unless ``value`` gives another value.

    Rows are sorted by the value. The cell is the value formatted by ``form``, by default as tables of commands show a
    field of that name: the end of the name is its unit. If the part has ``lacking`` brokers (or those of ``lacks``) and
    the column ``is_sum``, the cell says that there may be more. If values differ in kind, ``described`` gives the kind
    for each part. Where ``is_unknown`` says so of a part, a value of None is not known, rather than not there, and the
    cell says that. If it ``is_age``, its value grows while its part stays the same. ``mark`` highlights the cell, by
    default as commands do. A part that only every n-th refresh reads (``every``) becomes stale later. A column that
    ``is_sparse`` is only shown once a row has a value. A narrow terminal leaves out other columns before this one is
    narrower than ``readable_width``. The first column has the row's name, unless another column ``is_name``."""

    name: str
    value: Callable[[Any], Any] | None = None
    part: str = BASE
    words: str | None = None
    form: Callable[[Any], str] | None = None
    described: Callable[[Any], Described] | None = None
    mark: Callable[[Any], Mark | None] | None = None
    is_number: bool = False
    is_time: bool = False
    is_age: bool = False
    is_due: bool = False
    is_sum: bool = False
    lacks: Callable[[Any], Collection[str]] = attrgetter("lacking")
    is_unknown: Callable[[Any], bool] | None = None
    is_sparse: bool = False
    is_name: bool = False
    shape: Shape | None = None
    importance: Importance = Importance.USUAL
    readable_width: int | None = None
    width_max: int = CELL_WIDTH_MAX
    every: float = 1

    @property
    def title(self) -> str:
        return self.words or heading(self.name)

    @property
    def changes_by_itself(self) -> bool:
        """Whether its cell changes while its part stays the same."""
        return self.is_time or self.is_age or self.described is not None

    @property
    def is_measured(self) -> bool:
        """Whether its values are numbers that grow old. The number of a queue or a broker is a name."""
        return self.kind is Shape.NUMBER and not self.name.endswith("_id")

    @property
    def kind(self) -> Shape:
        """The shape of the column's values, which decides how they are shortened."""
        return self.shape or (Shape.NUMBER if self.is_number or self.is_time else Shape.NAME)

    def of(self, part: Any) -> Any:
        return getattr(part, self.name) if self.value is None else self.value(part)

    def text(self, part: Any, now_ms: int) -> str:
        """The text of the cell. Ages are relative to ``now_ms``."""
        value = self.of(part)
        if value is None and self.is_unknown is not None and self.is_unknown(part):
            return NOT_KNOWN
        described = self if self.described is None else self.described(part)
        cell = person_text(value, described, now_ms) if self.form is None else self.form(value)
        return at_least(cell) if self.is_sum and self.lacks(part) else cell

    def marked(self, part: Any) -> Mark | None:
        return marks.mark(self.name, self.of(part)) if self.mark is None else self.mark(part)


def column_of(described: ResultColumn, **changes: Any) -> Column:
    """A column of a command's table, with ``changes`` to its fields."""
    same = {
        "name": described.name,
        "is_number": described.is_number,
        "is_time": described.is_time,
        "is_due": described.is_due,
        "is_sparse": described.is_sparse,
        "shape": described.shape,
        "importance": described.importance,
    }
    return Column(**{**same, **changes})


def columns_of(row_type: type[Row]) -> list[Column]:
    """The columns of a command's table whose rows are the base part."""
    return [column_of(one) for one in columns(row_type) if not one.is_wide]


class CutCell(msgspec.Struct, frozen=True):
    """A cell that a table shortens or leaves out."""

    title: str
    text: str


class Cells:
    """The layout of a row. ``shown`` has the columns that fit, by number, with their widths."""

    def __init__(self, columns: Sequence[Column]):
        self.columns = list(columns)
        self._wholes = [cell_len(column.title) for column in columns]
        self._is_there = [not column.is_sparse for column in columns]
        self._room = 0
        self._sorted_at: int | None = None
        self.shown: list[tuple[int, int]] = []
        self._fit()

    def see(self, at: int, text: str) -> bool:
        """Makes room for a cell's text. Returns whether columns may move."""
        width = min(cell_len(text), self.columns[at].width_max)
        if width <= self._wholes[at] and self._is_there[at]:
            return False
        self._wholes[at] = max(width, self._wholes[at])
        self._is_there[at] = True
        return True

    def fit(self, room: int, sorted_at: int | None) -> bool:
        """Fits the columns into ``room`` cells, always including the one that rows are sorted by. Returns whether the
        columns have moved."""
        self._room, self._sorted_at = room, sorted_at
        before = self.shown
        self._fit()
        return self.shown != before

    def _fit(self) -> None:
        there = [at for at, is_there in enumerate(self._is_there) if is_there]
        wishes = [
            wish(
                self.columns[at].kind,
                max(self._wholes[at], cell_len(self.columns[at].title) + 1)
                if at == self._sorted_at
                else self._wholes[at],
                Importance.VITAL if at == self._sorted_at else self.columns[at].importance,
                readable=self.columns[at].readable_width,
            )
            for at in there
        ]
        widths = fit(wishes, self._room) if self._room > 0 and wishes else [one.whole for one in wishes]
        self.shown = [(at, width) for at, width in zip(there, widths, strict=True) if width]

    @property
    def is_squeezed(self) -> bool:
        """Whether some column is left out, or narrower than its cells. Sparklines do not count: only their end
        matters."""
        shown = dict(self.shown)
        return any(
            self._is_there[at] and shown.get(at, 0) < whole and self.columns[at].kind is not Shape.TREND
            for at, whole in enumerate(self._wholes)
        )

    def cut(self, texts: Sequence[str | None]) -> list[CutCell]:
        """The cells of a row that are not fully visible: first shortened ones, then those left out."""
        widths = dict(self.shown)
        lines = [at for at, column in enumerate(self.columns) if column.kind is Shape.TREND]
        short = [at for at, width in self.shown if cell_len(texts[at] or "") > width and at not in lines]
        out = [at for at in range(len(self.columns)) if at not in widths and at not in lines]
        return [
            CutCell(self.columns[at].title, text) for at in [*short, *out] if (text := texts[at]) and text != UNKNOWN
        ]

    def cell(self, at: int, width: int, text: str) -> str:
        """A text at the width of its column: shortened, or padded on the left if it is a number, else on the right."""
        column = self.columns[at]
        length = len(text) if text.isascii() else cell_len(text)
        if length > width:
            text = shortened(column.kind, text, width)
            length = cell_len(text)
            if length > width:  # Rich and the shortening disagree about the width of a character
                return set_cell_size(text, width)
        blanks = " " * (width - length)
        return blanks + text if column.is_number else text + blanks
