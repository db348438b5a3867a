"""An expression as a tree, with the checks that Apache makes when it builds one (classes of its package
``filter.expression``, 5.5.0). ``str`` of a node is its text in messages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rmqproto.filters.sql92.java_values import (
    INT_MAX,
    NUMBER_FORMAT_EXCEPTION,
    PARSE_EXCEPTION,
    JavaError,
    Long,
    NumberFormatError,
    Sql92Error,
    Value,
    compare,
    value_text,
)
from rmqproto.java.java_numbers import LONG_MAX


class Constant(msgspec.Struct, frozen=True):
    value: Value

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        text = value_text(self.value)
        return text.upper() if isinstance(self.value, bool | None) else text


class Property(msgspec.Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return self.name


class Negation(msgspec.Struct, frozen=True):
    """A minus. It is null if the operand is not a number."""

    operand: Node

    def __str__(self) -> str:
        return f"(- {self.operand})"


class Presence(msgspec.Struct, frozen=True):
    """A property as a condition: null if it is missing, otherwise false, since it is text and not a Boolean."""

    operand: Property

    def __str__(self) -> str:
        return str(self.operand)


class Comparison(msgspec.Struct, frozen=True):
    """``symbol`` is ``==`` (also for IS NULL), ``<``, ``<=``, ``>`` or ``>=``."""

    symbol: str
    left: Node
    right: Node

    def __str__(self) -> str:
        return f"({self.left} {self.symbol} {self.right})"


class In(msgspec.Struct, frozen=True):
    operand: Property
    values: tuple[str, ...]
    is_negated: bool

    def __str__(self) -> str:
        return f"{self.operand} {'NOT IN' if self.is_negated else 'IN'} ( {', '.join(self.values)} )"


class TextTest(msgspec.Struct, frozen=True):
    """``word`` is CONTAINS, STARTSWITH or ENDSWITH. It is never null: without text, or with an empty literal, it is
    false."""

    word: str
    operand: Node
    literal: str
    is_negated: bool

    def __str__(self) -> str:
        return f"({'NOT ' if self.is_negated else ''}{self.word} {self.operand})"


class Not(msgspec.Struct, frozen=True):
    operand: Node

    def __str__(self) -> str:
        return f"(NOT {self.operand})"


class Logic(msgspec.Struct, frozen=True):
    """AND (``is_and``) or OR of two or more terms, evaluated from the left."""

    is_and: bool
    terms: list[Node]

    def __str__(self) -> str:
        terms = list(map(str, self.terms))
        symbol = " && " if self.is_and else " || "
        return "(" * (len(terms) - 1) + terms[0] + "".join(f"{symbol}{term})" for term in terms[1:])


Node = Constant | Property | Negation | Presence | Comparison | In | TextTest | Not | Logic

_BOOLEAN = (Presence, Comparison, In, TextTest, Not, Logic)
NULL = Constant(None)


def is_boolean(node: Node) -> bool:
    return isinstance(node, _BOOLEAN) or (isinstance(node, Constant) and isinstance(node.value, bool | None))


def condition(node: Node) -> Node:
    """A node for a place where only a condition is allowed."""
    if is_boolean(node):
        return node
    if isinstance(node, Property):
        return Presence(node)
    raise Sql92Error(f"Expression will not result in a boolean value: {node}", PARSE_EXCEPTION)


# --- literals --------------------------------------------------------------------------------------------------------


def decimal_literal(image: str) -> Constant:
    digits = image.rstrip("lL")
    if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
        raise Sql92Error(f'For input string: "{digits}"', NUMBER_FORMAT_EXCEPTION)
    value = int(digits)
    return Constant(value if value <= INT_MAX else Long(value))


def float_literal(image: str) -> Constant:
    value = float(image)
    if value == float("inf"):
        raise Sql92Error(f"{image} is greater than 1.7976931348623157E308")
    if value == 0:
        raise Sql92Error(f"{image} is less than 4.9E-324")
    return Constant(value)


# --- comparisons -----------------------------------------------------------------------------------------------------


def equal(left: Node, right: Node) -> Node:
    for node in (left, right):
        if node == NULL:
            raise Sql92Error(f"'{node}' cannot be compared.")
    if _is_truth(left) and isinstance(right, Constant) and not _is_truth(right):
        raise Sql92Error(f"'{left}' cannot be compared with '{right}'")
    return Comparison("==", left, right)


def _is_truth(node: Node) -> bool:
    return isinstance(node, Constant) and isinstance(node.value, bool)


def ordered(symbol: str, left: Node, right: Node) -> Node:
    """``<``, ``<=``, ``>`` and ``>=``: only properties and numbers have an order."""
    for node in (left, right):
        if is_boolean(node) or (isinstance(node, Constant) and isinstance(node.value, str)):
            raise Sql92Error(f"Value '{node}' cannot be compared.")
    return Comparison(symbol, left, right)


def between(operand: Node, low: Node, high: Node) -> Node:
    if isinstance(low, Constant) and isinstance(high, Constant):
        _check_bounds(low, high)
    return conjunction(ordered(">=", operand, low), ordered("<=", operand, high))


def not_between(operand: Node, low: Node, high: Node) -> Node:
    return disjunction(ordered("<", operand, low), ordered(">", operand, high))


def is_in(operand: Node, values: Sequence[str], *, is_negated: bool) -> Node:
    if not isinstance(operand, Property):
        raise Sql92Error(f"Expected a property for In expression, got: {operand}")
    return In(operand, tuple(values), is_negated)


def conjunction(left: Node, right: Node) -> Node:
    return _logic(True, condition(left), condition(right))


def disjunction(left: Node, right: Node) -> Node:
    return _logic(False, condition(left), condition(right))


def _logic(is_and: bool, left: Node, right: Node) -> Node:
    """AND or OR of two nodes. A chain is one node that gets one more term, so that a long chain is not a deep tree."""
    if isinstance(left, Logic) and left.is_and == is_and:
        left.terms.append(right)
        return left
    return Logic(is_and, [left, right])


def _check_bounds(low: Constant, high: Constant) -> None:
    if low.value is None or high.value is None:
        raise Sql92Error("Illegal values of between, values can not be null!")
    try:
        order = compare(high.value, low.value)
    except NumberFormatError as error:
        raise Sql92Error(f"{error.exception}: {error}") from None
    except JavaError as error:
        raise Sql92Error(str(error), error.exception) from None
    if order < 0:
        texts = f"left value({value_text(low.value)}) must less than or equal to right value({value_text(high.value)})"
        raise Sql92Error(f"Illegal values of between, {texts}")
