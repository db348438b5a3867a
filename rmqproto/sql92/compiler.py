"""A tree to one Python function. It gives Apache's result for every message; what cannot change it is not asked.

Each condition is true, false, null or an error, and a message is wanted only where the whole is true. So most of an
expression needs no third value: there ``and`` and ``or`` are Python's own. It is needed where something null stands
before something that can fail, because Apache goes on to it and fails (``_all``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from rmqproto.sql92.java_values import JavaError, Long, Value, compare, double, double_order, int32, int64
from rmqproto.sql92.parser import parse
from rmqproto.sql92.tree import (
    NULL,
    Comparison,
    Constant,
    In,
    Logic,
    Negation,
    Node,
    Not,
    Presence,
    Property,
    TextTest,
)

_MIRRORED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compile_sql92(expression: str) -> Callable[[Mapping[str, str]], bool]:
    """A function that is asked with a message's properties; it never fails. Sql92Error for an expression that does not
    compile."""
    code = _Code()
    truth = code.truth(parse(expression), True, is_exact=False)
    reads = "".join(f"  {variable} = get({name!r})\n" for name, variable in code.variables.items())
    source = (
        "def matches(properties):\n get = properties.get\n try:\n"
        f"{reads}  return {truth}\n except JavaError:\n  return False\n"
    )
    names: dict[str, Any] = dict(_NAMES)
    exec(source, names)  # only what this module writes: literals and names come in as repr gives them
    matches: Callable[[Mapping[str, str]], bool] = names["matches"]
    return matches


class _Code:
    """Python expressions for nodes. ``variables`` holds the variable of each property that is read."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self._temporary_count = 0

    # --- truths ------------------------------------------------------------------------------------------------------

    def truth(self, node: Node, wanted: bool, *, is_exact: bool) -> str:
        """True if the condition is what is ``wanted``, and False if it is the other or null. Without
        ``is_exact`` an error may come out as False: the message is not wanted then either way."""
        if isinstance(node, Not):
            return self.truth(node.operand, not wanted, is_exact=is_exact)
        if isinstance(node, Logic):
            if node.is_and is wanted:
                return self._all(node.terms, wanted, is_exact=is_exact)
            *before, last = node.terms
            parts = [self.truth(term, wanted, is_exact=True) for term in before]
            return "(" + " or ".join([*parts, self.truth(last, wanted, is_exact=is_exact)]) + ")"
        leaf = self._leaf(node)
        if leaf is None:
            return f"({self.value(node)} is {wanted})"
        null, true = leaf
        asked = true if wanted else f"not {true}"
        return f"({asked})" if null is None else f"(not ({null}) and {asked})"

    def _all(self, terms: list[Node], wanted: bool, *, is_exact: bool) -> str:
        """All terms of an AND are true (``wanted``), or all of an OR are false."""
        if not is_exact:
            return "(" + " and ".join(self.truth(term, wanted, is_exact=False) for term in terms) + ")"
        parts, are_null = self._until(terms, wanted, _before_one_that_fails(terms))
        return "(" + " and ".join([*parts, *(f"{temporary} is not None" for temporary in are_null)]) + ")"

    def _until(self, terms: list[Node], wanted: bool, goes_on: list[bool]) -> tuple[list[str], list[str]]:
        """Expressions, true one after the other until a term is the opposite of ``wanted``, or null if Apache may
        as well stop; and the variables that hold the values of those terms that were null if it ``goes_on``."""
        parts: list[str] = []
        temporaries: list[str] = []
        for term, must_go_on in zip(terms, goes_on, strict=True):
            if must_go_on and can_be_null(term):
                temporaries.append(self._temporary())
                parts.append(f"({temporaries[-1]} := {self.value(term)}) is not {not wanted}")
            else:
                parts.append(self.truth(term, wanted, is_exact=True))
        return parts, temporaries

    # --- values ------------------------------------------------------------------------------------------------------

    def value(self, node: Node) -> str:
        """What Apache's ``evaluate`` returns, errors and all."""
        if isinstance(node, Property):
            return self._variable(node)
        if isinstance(node, Constant):
            return _literal(node.value)
        if isinstance(node, Negation):
            number = _number(node)
            return _literal(number) if number is not None else f"null_of({self.value(node.operand)})"
        if not can_be_null(node) and not isinstance(node, Comparison):
            return self.truth(node, True, is_exact=True)
        if isinstance(node, Not):
            temporary = self._temporary()
            return f"(None if ({temporary} := {self.value(node.operand)}) is None else not {temporary})"
        if isinstance(node, Logic):
            parts, are_null = self._until(node.terms, node.is_and, [True] * len(node.terms))
            is_null = " or ".join(f"{temporary} is None" for temporary in are_null)
            return f"({not node.is_and} if not ({' and '.join(parts)}) else None if {is_null} else {node.is_and})"
        leaf = self._leaf(node)
        if leaf is not None:
            null, true = leaf
            return true if null is None else f"(None if {null} else {true})"
        assert isinstance(node, Comparison)
        if node.symbol == "==":
            return f"equal({self.value(node.left)}, {self.value(node.right)})"
        temporary = self._temporary()
        right = f"ordered({node.symbol!r}, {temporary}, {self.value(node.right)})"
        return f"(None if ({temporary} := {self.value(node.left)}) is None else {right})"

    def _variable(self, node: Property) -> str:
        return self.variables.setdefault(node.name, f"p{len(self.variables)}")

    def _temporary(self) -> str:
        self._temporary_count += 1
        return f"t{self._temporary_count}"

    # --- leaves ------------------------------------------------------------------------------------------------------

    def _leaf(self, node: Node) -> tuple[str | None, str] | None:
        """When the condition is null (None for never), and whether it is true where it is not; None for one that has no
        short form."""
        if isinstance(node, Constant):
            return ("True", "False") if node.value is None else (None, str(node.value))
        if isinstance(node, Presence):
            return f"{self._variable(node.operand)} is None", "False"
        if isinstance(node, In):
            variable, values = self._variable(node.operand), ", ".join(map(repr, dict.fromkeys(node.values)))
            return f"{variable} is None", f"({variable} {'not in' if node.is_negated else 'in'} {{{values}}})"
        if isinstance(node, TextTest):
            return None, self._text_test(node)
        assert isinstance(node, Comparison)
        if node.right == NULL:
            return None, f"is_null({self.value(node.left)})"
        return self._comparison(node.symbol, node.left, node.right)

    def _text_test(self, node: TextTest) -> str:
        operand, literal = node.operand, node.literal
        if not literal:
            return "False"
        if isinstance(operand, Constant) and isinstance(operand.value, str):
            return str(_TEXT_TESTS[node.word](operand.value, literal) is not node.is_negated)
        text = self.value(operand)
        if not isinstance(operand, Property):
            return f"(null_of({text}) is not None)"
        test = f"{literal!r} in {text}" if node.word == "CONTAINS" else f"{text}.{node.word.lower()}({literal!r})"
        return f"({text} is not None and {'not ' if node.is_negated else ''}{test})"

    def _comparison(self, symbol: str, left: Node, right: Node) -> tuple[str | None, str] | None:
        """A property beside a number, text or another property."""
        if not isinstance(left, Property):
            if not isinstance(right, Property):
                return None
            mirrored = self._comparison(_MIRRORED[symbol], right, left)
            if mirrored is None or symbol != "==":
                return mirrored
            null, true = mirrored  # a constant equals nothing that is missing, and the answer is not null
            return None, f"(not ({null}) and {true})"
        variable = self._variable(left)
        if isinstance(right, Property):
            other = self._variable(right)
            if symbol == "==":
                return f"({variable} is None and {other} is not None)", f"({variable} == {other})"
            order = f"double_order(double({variable}), double({other}))"
            return f"{variable} is None or {other} is None", f"({order} {symbol} 0)"
        if isinstance(right, Constant) and isinstance(right.value, str):
            return f"{variable} is None", f"({variable} == {right.value!r})"
        number = _number(right)
        if number is None:
            return None
        if isinstance(number, float) and symbol in (">", ">="):  # NaN is above all numbers
            return f"{variable} is None", f"(not double({variable}) {'<=' if symbol == '>' else '<'} {number!r})"
        read = "double" if isinstance(number, float) else "int64" if isinstance(number, Long) else "int32"
        return f"{variable} is None", f"({read}({variable}) {symbol} {number!r})"


# --- what a node can do ----------------------------------------------------------------------------------------------


def can_be_null(node: Node) -> bool:
    if isinstance(node, Not):
        return can_be_null(node.operand)
    if isinstance(node, Logic):
        return any(map(can_be_null, node.terms))
    if isinstance(node, Constant):
        return node.value is None
    if isinstance(node, Comparison):
        return node.right != NULL and not (node.symbol == "==" and isinstance(node.left, Constant))
    return not isinstance(node, TextTest)


def can_fail(node: Node) -> bool:
    if isinstance(node, Not | Negation | TextTest):
        return can_fail(node.operand)
    if isinstance(node, Logic):
        return any(map(can_fail, node.terms))
    if not isinstance(node, Comparison):
        return False
    if node.right == NULL:
        return can_fail(node.left)
    return node.symbol != "==" or not all(map(_is_text, (node.left, node.right)))


def _is_text(node: Node) -> bool:
    return isinstance(node, Property) or (isinstance(node, Constant) and isinstance(node.value, str))


def _before_one_that_fails(terms: list[Node]) -> list[bool]:
    """For each term whether one behind it can fail."""
    found: list[bool] = []
    can = False
    for term in reversed(terms):
        found.append(can)
        can = can or can_fail(term)
    return found[::-1]


def _number(node: Node) -> int | float | None:
    """The number that a literal is, with its signs."""
    if isinstance(node, Negation):
        number = _number(node.operand)
        return None if number is None else type(number)(-number)
    if isinstance(node, Constant) and not isinstance(node.value, bool) and isinstance(node.value, int | float):
        return node.value
    return None


def _literal(value: object) -> str:
    return f"Long({int(value)})" if isinstance(value, Long) else f"({value!r})"


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
    """For a node that is asked only because it may fail."""


_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith,
}  # fmt: skip
_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_NAMES = {
    "JavaError": JavaError, "Long": Long, "double": double, "double_order": double_order, "equal": _equal,
    "int32": int32, "int64": int64, "is_null": _is_null,
    "null_of": _null_of, "ordered": _ordered,
}  # fmt: skip
