"""The columns of tables: titles, text and marks. Titles, formats and marks are those of
the commands' tables (``core.tables``), unless a column says otherwise. Independent of screens."""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any

import msgspec

from rmqadmin.core.results import Importance, ResultColumn, Row, Shape, columns
from rmqadmin.core.tables import marks
from rmqadmin.core.tables.headings import words
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.tables.values import Described, person_text
from rmqadmin.core.units import at_least

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
        return self.words or words(self.name)

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
