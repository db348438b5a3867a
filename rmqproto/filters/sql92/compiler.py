"""Compiles a tree to one Python function. It gives Apache's result for every message, and skips conditions that cannot
change the result."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rmqproto.filters.message_filter import AcceptsProperties, AcceptsRawProperties, AcceptsValues
from rmqproto.filters.sql92.conditions import Conditions
from rmqproto.filters.sql92.java_values import JavaError, Long, Value, compare, double, double_order, int32, int64
from rmqproto.filters.sql92.parser import parse


def compile_sql92_for_values(expression: str) -> AcceptsValues:
    """A function of property values, which never fails. Sql92Error for an expression that does not compile."""
    conditions = Conditions()
    truth = conditions.truth(parse(expression), True, is_exact=False)
    parameters = ", ".join(f"p{number}" for number in range(len(conditions.names)))
    names = dict(_NAMES)
    # This is only text of this package: literals come in by repr, and names of properties not at all.
    exec(f"def matches({parameters}):\n try:\n  return {truth}\n except JavaError:\n  return False\n", names)
    return AcceptsValues(tuple(conditions.names), names["matches"])


def compile_sql92_for_records(expression: str) -> AcceptsRawProperties:
    """As ``compile_sql92_for_values``, but a function of a record's raw properties."""
    return compile_sql92_for_values(expression).of_record


def compile_sql92(expression: str) -> AcceptsProperties:
    """As ``compile_sql92_for_values``, but a function of a message's properties."""
    found = compile_sql92_for_values(expression)
    names = [name[:-1].decode() for name in found.names]

    def matches(properties: Mapping[str, str]) -> bool:
        texts = map(properties.get, names)
        return bool(found.accepts(*[None if text is None else text.encode("utf-8", "replace") for text in texts]))

    return matches


# --- what the functions call -----------------------------------------------------------------------------------------


REMEMBERED_MAX, REMEMBERED_MAX_BYTES = 1024, 32
"""The count of remembered numbers and the size of each in bytes. When there are more, all are forgotten."""

N = TypeVar("N", bound=float)


class Numbers(dict[bytes, N]):
    """A cache of the numbers in bytes: most properties have few values. JavaError for bytes that hold no number."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[str], N]):
        """``read`` is a function of ``java_values``."""
        super().__init__()
        self._read = read

    def __missing__(self, value: bytes) -> N:
        number = self._read(value.decode("utf-8", "replace"))
        if len(value) <= REMEMBERED_MAX_BYTES:
            if len(self) >= REMEMBERED_MAX:
                self.clear()
            self[value] = number
        return number


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _equal(left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return True if left is right else None if left is None else False
    return compare(left, right) == 0


def _ordered(symbol: str, left: Value, right: Value) -> bool | None:
    if right is None:
        return None
    return _ORDERS[symbol](compare(left, right), 0)


def _is_null(value: Value) -> bool:
    return value is None


def _null_of(value: object) -> None:
    """Evaluates a node that is needed only because it may fail."""


_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
NUMBERS: dict[str, Numbers[Any]] = {"int32": Numbers(int32), "int64": Numbers(int64), "double": Numbers(double)}
_NAMES: dict[str, Any] = {
    **NUMBERS, "JavaError": JavaError, "Long": Long, "double_order": double_order, "equal": _equal,
    "is_null": _is_null, "null_of": _null_of, "ordered": _ordered, "text": _text,
}  # fmt: skip
