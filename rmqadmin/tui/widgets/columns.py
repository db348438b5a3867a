"""What the columns of a table show: words, text, marks, and the letter that sorts by one. Words, forms of values and
marks are those of the commands' tables (``core.tables``), unless a column says otherwise. Knows nothing of a screen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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
"""Which columns a narrow terminal keeps, and which it leaves out first."""

BASE, NUMBERS = "base", "numbers"
"""The part that all rows have: what they are; and the part that is asked for of the rows in view."""

CELL_WIDTH_MAX = 200

_LETTERS_TAKEN = frozenset("G")
"""``G`` goes to the last row, as in vi."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column: ``name`` is the field of the part that it shows, unless ``value`` gives another one.

    Rows are sorted by the value. The cell is ``form`` of it, by default as tables of commands show a field of that
    name: the end of the name is its unit. If the part has ``lacking`` brokers (or those of ``lacks``) and the column
    ``is_sum``, the cell says that there may be more. Where not all values are of one kind, ``described`` says of which
    one that of a part is. ``mark`` of the part sets it off, by default as commands do. A part that only every n-th
    refresh asks for (``every``) may be older before it is stale. A column that ``is_sparse`` is there when a row has a
    value. On a narrow terminal, other columns are left out before this one has less than ``readable_width``.
    The first column has the row's name, unless another one ``is_name``."""

    name: str
    value: Callable[[Any], Any] | None = None
    part: str = BASE
    words: str | None = None
    form: Callable[[Any], str] | None = None
    described: Callable[[Any], Described] | None = None
    mark: Callable[[Any], Mark | None] | None = None
    is_number: bool = False
    is_time: bool = False
    is_sum: bool = False
    lacks: Callable[[Any], Collection[str]] = attrgetter("lacking")
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
    def kind(self) -> Shape:
        """How it is shortened."""
        return self.shape or (Shape.NUMBER if self.is_number or self.is_time else Shape.NAME)

    def of(self, part: Any) -> Any:
        return getattr(part, self.name) if self.value is None else self.value(part)

    def text(self, part: Any, now_ms: int) -> str:
        """``now_ms``: what ages are relative to."""
        value = self.of(part)
        described = self if self.described is None else self.described(part)
        cell = person_text(value, described, now_ms) if self.form is None else self.form(value)
        return at_least(cell) if self.is_sum and self.lacks(part) else cell

    def marked(self, part: Any) -> Mark | None:
        return marks.mark(self.name, self.of(part)) if self.mark is None else self.mark(part)


def column_of(described: ResultColumn, **changes: Any) -> Column:
    """A column of a command's table. ``changes``: what is different here."""
    same = {
        "name": described.name,
        "is_number": described.is_number,
        "is_time": described.is_time,
        "is_sparse": described.is_sparse,
        "shape": described.shape,
        "importance": described.importance,
    }
    return Column(**{**same, **changes})


def columns_of(row_type: type[Row]) -> list[Column]:
    """The columns of a command's table whose rows are the base part."""
    return [column_of(one) for one in columns(row_type) if not one.is_wide]


def sort_letters(columns: Sequence[Column], letters_taken: str = "") -> list[str]:
    """The capital letter that sorts by each column, a letter of its title; empty if all of them are taken. First come
    first served, and the beginnings of words before other letters. ``letters_taken``: those that are keys of the
    screen."""
    taken = {*_LETTERS_TAKEN, *letters_taken}
    found = []
    for column in columns:
        title = column.title.upper()
        begins = "".join(word[0] for word in title.split())
        letter = next((one for one in begins + title if one.isascii() and one.isalpha() and one not in taken), "")
        taken.add(letter)
        found.append(letter)
    return found
