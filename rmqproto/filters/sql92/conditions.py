"""Python expressions for the conditions of a tree. Their variables hold the bytes of its properties, as records have
them, or None. A value is decoded only if its bytes cannot decide.

Each condition is true, false, null or an error, and a message matches only if the whole is true. So most of an
expression needs no third value, and uses Python's own ``and`` and ``or``. The third value is needed if a term that may
be null precedes one that can fail: Apache evaluates the second one, too, and fails (``_all``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rmqproto.filters.sql92.java_values import Long
from rmqproto.filters.sql92.tree import (
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

REPLACEMENT = "\ufffd"
"""Bytes that are not UTF-8 are read as this character, as in Java."""

_MIRRORED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith,
}  # fmt: skip


class Conditions:
    """Python expressions for nodes. ``names`` are the properties that they need, each with its separator; the variable
    ``p0`` holds the first, and so on."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self._variables: dict[str, str] = {}
        self._temporary_count = 0

    # --- truths ------------------------------------------------------------------------------------------------------

    def truth(self, node: Node, wanted: bool, *, is_exact: bool) -> str:
        """An expression that is True if the condition has the ``wanted`` value, and False if it has the other or is
        null. Without ``is_exact`` an error may become False: the message does not match in either case."""
        if isinstance(node, Not):
            return self.truth(node.operand, not wanted, is_exact=is_exact)
        if isinstance(node, Logic):
            if node.is_and is wanted:
                return self._all(node.terms, wanted, is_exact=is_exact)
            return "(" + " or ".join(self._any(node.terms, wanted, is_exact=is_exact)) + ")"
        leaf = self._leaf(node)
        if leaf is None:
            return f"({self.value(node)} is {wanted})"
        null, true = leaf
        asked = true if wanted else f"not {true}"
        return f"({asked})" if null is None else f"(not ({null}) and {asked})"

    def _any(self, terms: list[Node], wanted: bool, *, is_exact: bool) -> Iterator[str]:
        """Whether one of the terms of an OR is true (``wanted``), or one of an AND is false."""
        for number, term in enumerate(terms, 1):
            yield self.truth(term, wanted, is_exact=is_exact or number < len(terms))

    def _all(self, terms: list[Node], wanted: bool, *, is_exact: bool) -> str:
        """Whether all terms of an AND are true (``wanted``), or all of an OR are false."""
        if not is_exact:
            if wanted:
                return "(" + " and ".join(self._all_true(terms)) + ")"
            return "(" + " and ".join(self.truth(term, False, is_exact=False) for term in terms) + ")"
        parts, are_null = self._until(terms, wanted, before_one_that_fails(terms))
        return "(" + " and ".join([*parts, *(f"{temporary} is not None" for temporary in are_null)]) + ")"

    def _all_true(self, terms: list[Node]) -> Iterator[str]:
        """Expressions for all terms being true, not exact. Two neighbouring terms about the same number, as from
        BETWEEN, become one expression."""
        at = 0
        while at < len(terms):
            both = self._between(*terms[at : at + 2]) if at + 1 < len(terms) else None
            yield both or self.truth(terms[at], True, is_exact=False)
            at += 2 if both else 1

    def _between(self, low: Node, high: Node) -> str | None:
        """One expression for two terms that bound the same whole number of a property from below and above; None for
        other terms."""
        if not (isinstance(low, Comparison) and isinstance(high, Comparison) and low.left == high.left):
            return None
        numbers = _number(low.right), _number(high.right)
        is_whole = all(isinstance(number, int) for number in numbers) and type(numbers[0]) is type(numbers[1])
        symbols = low.symbol[:1] + high.symbol[:1]
        if not is_whole or symbols != "><" or not isinstance(low.left, Property):
            return None
        variable = self._variable(low.left)
        number = f"{_reader(numbers[0])}[{variable}]"
        bounded = f"{numbers[0]!r} {_MIRRORED[low.symbol]} {number} {high.symbol} {numbers[1]!r}"
        return f"({variable} is not None and {bounded})"

    def _until(self, terms: list[Node], wanted: bool, goes_on: list[bool]) -> tuple[list[str], list[str]]:
        """Two lists. The expressions are true in turn until a term is the opposite of ``wanted``, or is null and Apache
        may stop there. The variables hold the values of terms that may be null and whose ``goes_on`` is true."""
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
        """An expression for the result of Apache's ``evaluate``, including errors."""
        if isinstance(node, Property):
            return f"text({self._variable(node)})"
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
        """The variable that holds the property."""
        if node.name not in self._variables:
            self._variables[node.name] = f"p{len(self.names)}"
            self.names.append(f"{node.name}\x01".encode())
        return self._variables[node.name]

    def _temporary(self) -> str:
        self._temporary_count += 1
        return f"t{self._temporary_count}"

    # --- leaves ------------------------------------------------------------------------------------------------------

    def _leaf(self, node: Node) -> tuple[str | None, str] | None:
        """Expressions for when the condition is null (None for never), and whether it is true otherwise. None if there
        is no short form."""
        if isinstance(node, Constant):
            return ("True", "False") if node.value is None else (None, str(node.value))
        if isinstance(node, Presence):
            return f"{self._variable(node.operand)} is None", "False"
        if isinstance(node, In):
            variable = self._variable(node.operand)
            text, values = _beside(variable, list(dict.fromkeys(node.values)))
            return f"{variable} is None", f"({text} {'not in' if node.is_negated else 'in'} {{{', '.join(values)}}})"
        if isinstance(node, TextTest):
            return None, self._text_test(node)
        assert isinstance(node, Comparison)
        if node.right == NULL and isinstance(node.left, Property):
            return None, f"({self._variable(node.left)} is None)"
        if node.right == NULL:
            return None, f"is_null({self.value(node.left)})"
        return self._comparison(node.symbol, node.left, node.right)

    def _text_test(self, node: TextTest) -> str:
        operand, literal = node.operand, node.literal
        if not literal:
            return "False"
        if isinstance(operand, Constant) and isinstance(operand.value, str):
            return str(_TEXT_TESTS[node.word](operand.value, literal) is not node.is_negated)
        if not isinstance(operand, Property):
            return f"(null_of({self.value(operand)}) is not None)"
        variable = self._variable(operand)
        text, (part,) = _beside(variable, [literal])
        test = f"{part} in {text}" if node.word == "CONTAINS" else f"{text}.{node.word.lower()}({part})"
        return f"({variable} is not None and {'not ' if node.is_negated else ''}{test})"

    def _comparison(self, symbol: str, left: Node, right: Node) -> tuple[str | None, str] | None:
        """As ``_leaf``, for a property compared with a number, text or another property."""
        if not isinstance(left, Property):
            if not isinstance(right, Property):
                return None
            mirrored = self._comparison(_MIRRORED[symbol], right, left)
            if mirrored is None or symbol != "==":
                return mirrored
            null, true = mirrored  # a constant does not equal a missing value, and the result is not null
            return None, f"(not ({null}) and {true})"
        variable = self._variable(left)
        if isinstance(right, Property):
            other = self._variable(right)
            if symbol == "==":
                same = f"(text({variable}) == text({other}))"
                return f"({variable} is None and {other} is not None)", same
            return (
                f"{variable} is None or {other} is None",
                f"(double_order(double[{variable}], double[{other}]) {symbol} 0)",
            )
        if isinstance(right, Constant) and isinstance(right.value, str):
            text, (value,) = _beside(variable, [right.value])
            return f"{variable} is None", f"({text} == {value})"
        number = _number(right)
        if number is None:
            return None
        if isinstance(number, float) and symbol in (">", ">="):  # NaN is above all numbers
            return f"{variable} is None", f"(not double[{variable}] {'<=' if symbol == '>' else '<'} {number!r})"
        return f"{variable} is None", f"({_reader(number)}[{variable}] {symbol} {number!r})"


def _beside(variable: str, literals: Sequence[str]) -> tuple[str, list[str]]:
    """A variable that is not None, and literals to compare it with, in comparable types."""
    try:
        encoded = [literal.encode() for literal in literals]
    except UnicodeEncodeError:  # half a surrogate pair, which no message has
        encoded = []
    if not encoded or any(REPLACEMENT in literal for literal in literals):
        return f"text({variable})", [repr(literal) for literal in literals]
    return variable, [repr(literal) for literal in encoded]


def _reader(number: int | float | None) -> str:
    """The function that reads a property that is compared with this number."""
    return "double" if isinstance(number, float) else "int64" if isinstance(number, Long) else "int32"


def _number(node: Node) -> int | float | None:
    """The number of a literal, with its signs."""
    if isinstance(node, Negation):
        number = _number(node.operand)
        return None if number is None else type(number)(-number)
    if isinstance(node, Constant) and not isinstance(node.value, bool) and isinstance(node.value, int | float):
        return node.value
    return None


def _literal(value: object) -> str:
    return f"Long({int(value)})" if isinstance(value, Long) else f"({value!r})"


# --- outcomes: whether a value can be null or an error ---------------------------------------------------------------


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


def before_one_that_fails(terms: list[Node]) -> list[bool]:
    """For each term, whether a later one can fail."""
    found: list[bool] = []
    can = False
    for term in reversed(terms):
        found.append(can)
        can = can or can_fail(term)
    return found[::-1]
