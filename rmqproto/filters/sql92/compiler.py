"""Compiles a tree to one Python function. It gives Apache's result for every message, and skips conditions that cannot
change the result."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from rmqproto.filters.message_filter import AcceptsProperties, AcceptsRawProperties, AcceptsValues
from rmqproto.filters.sql92.conditions import Conditions
from rmqproto.filters.sql92.forms import Form, MappingForm, RecordForm, ValuesForm
from rmqproto.filters.sql92.java_values import JavaError, Long, Value, compare, double_order
from rmqproto.filters.sql92.parser import parse


def compile_sql92(expression: str) -> AcceptsProperties:
    """A function of a message's properties, which never fails. Sql92Error for an expression that does not compile."""
    form = MappingForm()
    matches: AcceptsProperties = _function("properties", Conditions(form).statements(parse(expression)), form)
    return matches


def compile_sql92_for_records(expression: str) -> AcceptsRawProperties:
    """As ``compile_sql92``, but a function of a record's raw properties."""
    form = RecordForm()
    matches: AcceptsRawProperties = _function("properties", Conditions(form).statements(parse(expression)), form)
    return matches


def compile_sql92_for_values(expression: str) -> AcceptsValues:
    """As ``compile_sql92``, but a function of property values that were looked up by name."""
    form = ValuesForm()
    body = list(Conditions(form).statements(parse(expression)))
    return AcceptsValues(tuple(form.read_names), _function(", ".join(form.variables), body, form))


def _function(parameters: str, body: Iterable[str], form: Form) -> Any:
    lines = "".join(f"  {statement}\n" for statement in body)
    names: dict[str, Any] = {**_NAMES, **form.names}
    # This is only text of this package: literals and names come in by repr.
    exec(f"def matches({parameters}):\n try:\n{lines} except JavaError:\n  return False\n", names)
    return names["matches"]


# --- what the functions call -----------------------------------------------------------------------------------------


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
_NAMES = {
    "JavaError": JavaError, "Long": Long, "double_order": double_order, "equal": _equal, "is_null": _is_null,
    "null_of": _null_of, "ordered": _ordered,
}  # fmt: skip
