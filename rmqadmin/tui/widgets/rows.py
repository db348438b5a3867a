"""Rows as data: what a table's columns make of them, and the order they come in. Knows nothing of a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rmqadmin.core.units import at_least

BASE = "base"
"""The part that all rows have: what they are."""

CELL_WIDTH_MAX = 64


class Column(msgspec.Struct, frozen=True):
    """Rows are sorted by ``value`` of their part. ``form`` of that value is the cell. If the part has ``lacking``
    brokers and the column ``is_sum``, the cell says that there may be more. ``mark`` of the part is good, warn, bad or
    None. A part that only every n-th refresh asks for (``every``) may be older before it is stale."""

    title: str
    value: Callable[[Any], Any]
    part: str = BASE
    form: Callable[[Any], str] = str
    is_number: bool = False
    mark: Callable[[Any], str | None] | None = None
    width_max: int = CELL_WIDTH_MAX
    every: float = 1
    is_sum: bool = False

    def text(self, part: Any) -> str:
        cell = self.form(self.value(part))
        return at_least(cell) if self.is_sum and part.lacking else cell


@dataclass(slots=True)
class Line:
    """A row: its parts, when each was asked for, and text and mark of each cell, None while its part is missing."""

    key: str
    texts: list[str | None]
    marks: list[str | None]
    parts: dict[str, Any] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)
    searched: str = ""


class Order(msgspec.Struct, frozen=True):
    """Rows by the values of one column, unknown ones last. Equal rows stay in the order in which they came."""

    at: int
    descends: bool


def sort(lines: Sequence[Line], columns: Sequence[Column], order: Order) -> list[Line]:
    """The same lines in this order. Text is sorted without regard to case."""
    column = columns[order.at]
    values = [(column.value(line.parts[column.part]) if column.part in line.parts else None, line) for line in lines]
    known = [
        (value.casefold() if isinstance(value, str) else value, line) for value, line in values if value is not None
    ]
    known.sort(key=lambda pair: pair[0], reverse=order.descends)
    return [line for _, line in known] + [line for value, line in values if value is None]
