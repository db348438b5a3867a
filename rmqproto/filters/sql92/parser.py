"""Tokens to a tree (``SelectorParser``, 5.5.0). The precedence from the lowest: OR, AND, equality, comparison, sign or
NOT. So ``NOT a = 5`` is ``(NOT a) = 5``. Tokens after a complete expression are ignored.

The parser does not build nodes itself: it makes a list of steps, which are then run in order. Apache builds while it
reads, so a node that it refuses hides later errors. The operand of a ``+`` is the exception: Apache reads it to its end
first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rmqproto.filters.sql92 import tree
from rmqproto.filters.sql92.java_values import PARSE_EXCEPTION, Sql92Error, escaped
from rmqproto.filters.sql92.lexer import Kind, Lexer, Token, string_value
from rmqproto.filters.sql92.tree import Node

LENGTH_MAX = 64 << 10
"""The limit for the characters of an expression."""

TOKEN_COUNT_MAX = 8192
"""The limit for tokens. Other clients wait while an expression compiles. Apache has a thread for each request, and
neither limit."""

NESTING_MAX = 48
"""The limit for nested brackets, signs and NOTs, and for operators whose left side is the result of another. In Apache
the Java stack is the limit, at some thousand."""

_ORDER_SYMBOLS = {Kind.GREATER: ">", Kind.GREATER_EQUAL: ">=", Kind.LESS: "<", Kind.LESS_EQUAL: "<="}
_TEXT_TESTS = (Kind.CONTAINS, Kind.STARTSWITH, Kind.ENDSWITH)

# The tokens that a message lists as expected in each place.
_AFTER_NOT = (*_TEXT_TESTS, Kind.BETWEEN, Kind.IN)
_COMPARISONS_BUT_NOT = (*_AFTER_NOT, *_ORDER_SYMBOLS)
_COMPARISONS = (Kind.NOT, *_COMPARISONS_BUT_NOT)
_AFTER_NULL_TEST = (Kind.OR, Kind.AND, Kind.EQUAL, Kind.NOT_EQUAL, Kind.IS)
_OPERATORS = (*_AFTER_NULL_TEST, *_COMPARISONS)
_STARTS = (
    Kind.NOT, Kind.TRUE, Kind.FALSE, Kind.NULL, Kind.DECIMAL_LITERAL, Kind.FLOATING_POINT_LITERAL, Kind.STRING_LITERAL,
    Kind.ID, Kind.OPEN, Kind.MINUS,
)  # fmt: skip

_LITERALS = {Kind.TRUE: tree.Constant(True), Kind.FALSE: tree.Constant(False), Kind.NULL: tree.NULL}

Step = Callable[[list[Node]], Node]
"""Takes its operands from the stack, and returns the node to put there."""


def parse(expression: str) -> Node:
    """The whole expression as a condition. Sql92Error, in Apache's words except for our own limits."""
    if len(expression) > LENGTH_MAX:
        raise Sql92Error(f"an expression of {len(expression)} characters; at most {LENGTH_MAX} are taken")
    parser = _Parser(expression)
    failure = None
    try:
        parser.disjunction()
    except Sql92Error as error:
        failure = error
    stack: list[Node] = []
    for step in parser.steps:
        stack.append(step(stack))
    if failure is not None:
        raise failure
    return tree.condition(stack.pop())


class _Parser:
    def __init__(self, expression: str):
        self._lexer = Lexer(expression)
        self._ahead: list[Token] = []
        self._token_count = 0
        self._level = 0
        self._follows_null_test = False
        self.steps: list[Step] = []

    # --- grammar -----------------------------------------------------------------------------------------------------

    # Each method adds the steps for the text that it reads, and returns the depth of the node that they build.

    def disjunction(self) -> int:
        depth, is_chain = self._conjunction(), 0
        while self._take(Kind.OR):
            depth, is_chain = max(depth, self._conjunction()), 1
            self._binary(tree.disjunction)
        return self._checked(depth + is_chain)

    def _conjunction(self) -> int:
        depth, is_chain = self._equality(), 0
        while self._take(Kind.AND):
            depth, is_chain = max(depth, self._equality()), 1
            self._binary(tree.conjunction)
        return self._checked(depth + is_chain)

    def _equality(self) -> int:
        depth = self._comparison()
        while self._peek().kind in (Kind.EQUAL, Kind.NOT_EQUAL, Kind.IS):
            if self._take(Kind.EQUAL):
                depth = max(depth, self._comparison())
                self._binary(tree.equal)
            elif self._take(Kind.NOT_EQUAL):
                depth = max(depth, self._comparison())
                self._binary(lambda left, right: tree.Not(tree.equal(left, right)))
            else:
                self._is_null()
            depth = self._checked(depth + 2)
        return depth

    def _is_null(self) -> None:
        self._advance()
        if self._take(Kind.NULL):
            self._unary(_is_null)
        else:
            self._expect(Kind.NOT, also=Kind.NULL)
            self._expect(Kind.NULL)
            self._unary(lambda operand: tree.Not(_is_null(operand)))
        self._follows_null_test = True

    def _comparison(self) -> int:
        depth = self._operand()
        while (kind := self._peek().kind) in _COMPARISONS:
            if kind in _ORDER_SYMBOLS:
                self._advance()
                depth = max(depth, self._operand())
                self._binary(partial(tree.ordered, _ORDER_SYMBOLS[kind]))
            else:
                depth = max(depth, self._test())
            depth = self._checked(depth + 2)
        return depth

    def _test(self) -> int:
        is_negated = self._peek().kind == Kind.NOT
        if is_negated and self._peek(1).kind not in _AFTER_NOT:
            raise self._unexpected(_COMPARISONS_BUT_NOT)
        if is_negated:
            self._advance()
        kind = self._advance().kind
        if kind == Kind.BETWEEN:
            depth = self._operand()
            self._expect(Kind.AND)
            depth = max(depth, self._operand())
            self._ternary(tree.not_between if is_negated else tree.between)
            return depth
        if kind == Kind.IN:
            self._unary(partial(tree.is_in, values=self._list(), is_negated=is_negated))
        else:
            self._unary(partial(tree.TextTest, kind.name, literal=self._string(), is_negated=is_negated))
        return 0

    def _list(self) -> list[str]:
        self._expect(Kind.OPEN)
        values = [self._string()]
        while self._take(Kind.COMMA):
            values.append(self._string())
        self._expect(Kind.CLOSE, Kind.COMMA)
        return values

    def _operand(self) -> int:
        """A literal, a name or an expression in brackets, with preceding signs and NOTs."""
        kind = self._peek().kind
        if kind not in _STARTS and kind != Kind.PLUS:
            raise self._unexpected(_STARTS, also=Kind.PLUS)
        self._level = self._checked(self._level + 1)
        if kind == Kind.PLUS:
            depth = self._positive()
        elif kind == Kind.MINUS:
            self._advance()
            depth = self._operand() + 1
            self._unary(tree.Negation)
        elif kind == Kind.NOT:
            self._advance()
            depth = self._operand() + 1
            self._unary(lambda operand: tree.Not(tree.condition(operand)))
        elif kind == Kind.OPEN:
            self._advance()
            depth = self.disjunction()
            self._expect(Kind.CLOSE, *(_AFTER_NULL_TEST if self._follows_null_test else _OPERATORS))
        else:
            self._literal_or_name()
            depth = 1
        self._level -= 1
        return depth

    def _positive(self) -> int:
        """The operand of a plus. Apache reads it ahead, and reports an error in it at the plus."""
        plus, step_count = self._peek(), len(self.steps)
        self._advance()
        try:
            return self._operand()
        except Sql92Error as error:
            del self.steps[step_count:]
            if isinstance(error, _UnexpectedToken):
                raise self._unexpected(_STARTS, token=plus) from None
            raise

    def _literal_or_name(self) -> None:
        token = self._advance()
        kind, image = token.kind, token.image
        if kind == Kind.ID:
            self._leaf(lambda: tree.Property(image))
        elif kind == Kind.STRING_LITERAL:
            self._leaf(lambda: tree.Constant(string_value(image)))
        elif kind == Kind.DECIMAL_LITERAL:
            self._leaf(lambda: tree.decimal_literal(image))
        elif kind == Kind.FLOATING_POINT_LITERAL:
            self._leaf(lambda: tree.float_literal(image))
        else:
            self._leaf(lambda: _LITERALS[kind])

    # --- steps -------------------------------------------------------------------------------------------------------

    def _leaf(self, build: Callable[[], Node]) -> None:
        self.steps.append(lambda stack: build())

    def _unary(self, build: Callable[[Node], Node]) -> None:
        self.steps.append(lambda stack: build(stack.pop()))

    def _binary(self, build: Callable[[Node, Node], Node]) -> None:
        self.steps.append(lambda stack: build(*_popped(stack, 2)))

    def _ternary(self, build: Callable[[Node, Node, Node], Node]) -> None:
        self.steps.append(lambda stack: build(*_popped(stack, 3)))

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _peek(self, distance: int = 0) -> Token:
        while len(self._ahead) <= distance:
            self._ahead.append(self._lexer.next())
            self._token_count += 1
            if self._token_count > TOKEN_COUNT_MAX:
                raise Sql92Error(f"an expression of more than {TOKEN_COUNT_MAX} words, signs and literals")
        return self._ahead[distance]

    def _advance(self) -> Token:
        self._follows_null_test = False
        token = self._peek()
        del self._ahead[0]
        return token

    def _take(self, kind: Kind) -> bool:
        if self._peek().kind != kind:
            return False
        self._advance()
        return True

    def _string(self) -> str:
        return string_value(self._expect(Kind.STRING_LITERAL).image)

    def _expect(self, kind: Kind, *others: Kind, also: Kind | None = None) -> Token:
        if self._peek().kind != kind:
            raise self._unexpected((kind, *others), also=also)
        return self._advance()

    def _checked(self, depth: int) -> int:
        if depth > NESTING_MAX:
            raise Sql92Error(f"an expression that is nested more than {NESTING_MAX} levels deep")
        return depth

    def _unexpected(
        self, expected: Sequence[Kind], *, also: Kind | None = None, token: Token | None = None
    ) -> _UnexpectedToken:
        """``also`` is listed last: JavaCC finds it in a second search."""
        token = token or self._peek()
        line, column = self._lexer.position(token.start)
        shown = "<EOF>" if token.kind == Kind.EOF else f' {token.kind.image} "{escaped(token.image)} "'
        kinds = [*sorted(expected), *([] if also is None else [also])]
        lines = "".join(f"    {kind.image} ...\n" for kind in kinds)
        which = " one of:" if len(kinds) > 1 else ":"
        message = f'Encountered "{shown}" at line {line}, column {column}.\nWas expecting{which}\n{lines}    '
        return _UnexpectedToken(message, PARSE_EXCEPTION)


class _UnexpectedToken(Sql92Error):
    """A token that the grammar does not allow in its place."""


def _is_null(operand: Node) -> Node:
    return tree.Comparison("==", operand, tree.NULL)


def _popped(stack: list[Node], count: int) -> list[Node]:
    operands = stack[-count:]
    del stack[-count:]
    return operands
