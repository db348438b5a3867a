"""Text to tokens, one at a time. Apache fails on an invalid character only when it gets there, and never looks behind a
complete expression (``SelectorParserTokenManager``, 5.5.0, which JavaCC made)."""

from __future__ import annotations

import enum
import re
from array import array

import msgspec

from rmqproto.filters.sql92.java_values import LEXICAL_ERROR, Sql92Error, escaped

TAB_COLUMNS = 8


class Kind(enum.IntEnum):
    """The kinds with Apache's numbers: a message lists the expected kinds in their order."""

    EOF = 0
    NOT = 8
    AND = 9
    OR = 10
    BETWEEN = 11
    IN = 12
    TRUE = 13
    FALSE = 14
    NULL = 15
    IS = 16
    CONTAINS = 17
    STARTSWITH = 18
    ENDSWITH = 19
    DECIMAL_LITERAL = 20
    FLOATING_POINT_LITERAL = 21
    STRING_LITERAL = 23
    ID = 24
    EQUAL = 25
    NOT_EQUAL = 26
    GREATER = 27
    GREATER_EQUAL = 28
    LESS = 29
    LESS_EQUAL = 30
    OPEN = 31
    COMMA = 32
    CLOSE = 33
    PLUS = 34
    MINUS = 35

    @property
    def image(self) -> str:
        """The kind as messages show it."""
        if self in _SIGN_TEXTS:
            return f'"{_SIGN_TEXTS[self]}"'
        is_word = Kind.NOT <= self <= Kind.ENDSWITH
        return f'"{self.name}"' if is_word else f"<{self.name}>"


_SIGNS = {
    "=": Kind.EQUAL, "<>": Kind.NOT_EQUAL, ">": Kind.GREATER, ">=": Kind.GREATER_EQUAL, "<": Kind.LESS,
    "<=": Kind.LESS_EQUAL, "(": Kind.OPEN, ",": Kind.COMMA, ")": Kind.CLOSE, "+": Kind.PLUS, "-": Kind.MINUS,
}  # fmt: skip
_SIGN_TEXTS = {kind: text for text, kind in _SIGNS.items()}
_WORDS = {kind.name: kind for kind in Kind if Kind.NOT <= kind <= Kind.ENDSWITH}

# If two tokens match, Apache takes the longer: a float before an integer, a comment before a minus. The group is
# greedy, not possessive, because Python before 3.11.4 would keep half a comment. Nothing follows it, so it never steps
# back.
_SKIPPED = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*(?s:.*?)\*/)*")
_TOKEN = re.compile(
    r"""
      (?P<word> [A-Za-z_$][A-Za-z0-9_$]*+)
    | (?P<sign> <>|>=|<=|[=<>(),+-])
    | (?P<float> [0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)? | \.[0-9]++(?:[eE][+-]?[0-9]++)? | [0-9]++[eE][+-]?[0-9]++)
    | (?P<decimal> 0 | [1-9][0-9]*+[lL]?)
    | (?P<string> '(?:''|[^'])*')
    """,
    re.VERBOSE,
)


class Token(msgspec.Struct, frozen=True, gc=False):
    """``start`` is its index in the lexer's text."""

    kind: Kind
    start: int
    image: str


class Lexer:
    def __init__(self, expression: str):
        self.text = _utf16_units(expression)
        """One character per UTF-16 unit, as Java counts columns."""
        self._index = 0

    def next(self) -> Token:
        """The next token; EOF from the end on. Sql92Error if no token begins here."""
        text = self.text
        skipped = _SKIPPED.match(text, self._index)
        assert skipped is not None  # it also matches an empty text
        start = skipped.end()
        if start == len(text):
            self._index = start
            return Token(Kind.EOF, start - 1, "")
        found = _TOKEN.match(text, start)
        if found is None:
            raise self._error(start)
        self._index = found.end()
        image = found.group()
        return Token(_kind(found.lastgroup, image), start, image)

    def position(self, index: int) -> tuple[int, int]:
        """Line and column of a character, both from 1; 0 and 0 if there is none."""
        line, column = (1, 0) if index >= 0 else (0, 0)
        before = ""
        for character in self.text[: index + 1]:
            if before == "\n" or (before == "\r" and character != "\n"):
                line, column = line + 1, 0
            column += TAB_COLUMNS - column % TAB_COLUMNS if character == "\t" else 1
            before = character
        return line, column

    def _error(self, start: int) -> Sql92Error:
        """An error as JavaCC words it, with the character at which it gave up and the part of the token before it."""
        text = self.text
        is_open = text[start] == "'" or text.startswith("/*", start)
        stop = len(text) if is_open else min(start + (2 if text[start] in "./" else 1), len(text))
        read = text[start:stop]
        line, column = self.position(stop - 1)
        if stop == len(text):
            line, column = (line + 1, 0) if read[-1] in "\n\r" else (line, column + 1)
            met, after = "<EOF> ", read if len(read) > 1 else ""
        else:
            met, after = f'"{escaped(read[-1])}" ({ord(read[-1])}), ', read[:-1]
        message = f'Lexical error at line {line}, column {column}.  Encountered: {met}after : "{escaped(after)}"'
        return Sql92Error(message, LEXICAL_ERROR)


def string_value(image: str) -> str:
    """The text that a string literal stands for."""
    value = image[1:-1].replace("''", "'")
    if any("\ud800" <= c <= "\udfff" for c in value):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return value


def _kind(group: str | None, image: str) -> Kind:
    if group == "word":
        return _WORDS.get(image.upper(), Kind.ID)
    if group == "sign":
        return _SIGNS[image]
    if group == "string":
        return Kind.STRING_LITERAL
    return Kind.FLOATING_POINT_LITERAL if group == "float" else Kind.DECIMAL_LITERAL


def _utf16_units(text: str) -> str:
    if text.isascii() or max(text) <= "\uffff":
        return text
    return "".join(map(chr, array("H", text.encode("utf-16-le", "surrogatepass"))))
