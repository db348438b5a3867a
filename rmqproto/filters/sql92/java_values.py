"""Java's values: reading numbers from text, comparing values of two classes, and showing them. Java's exceptions are a
JavaError. An expression that does not compile is a Sql92Error, in Apache's words: users of the Java client know them.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import LONG_MAX

PARSE_EXCEPTION = "org.apache.rocketmq.filter.parser.ParseException"
LEXICAL_ERROR = "org.apache.rocketmq.filter.parser.TokenMgrError"
RUNTIME_EXCEPTION = "java.lang.RuntimeException"
NUMBER_FORMAT_EXCEPTION = "java.lang.NumberFormatException"
CLASS_CAST_EXCEPTION = "java.lang.ClassCastException"


class Sql92Error(ProtocolError):
    """An expression that does not compile. ``remark`` is the broker's answer: Java's exception, then its message."""

    def __init__(self, message: str, exception: str = RUNTIME_EXCEPTION):
        super().__init__(message)
        self.remark = f"{exception}: {message}"


_ESCAPES = {
    "\0": "", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r", '"': r"\"", "'": r"\'", "\\": r"\\",
}  # fmt: skip


def escaped(text: str) -> str:
    """The text as JavaCC shows it in a message."""
    return "".join(
        _ESCAPES[c] if c in _ESCAPES else c if " " <= c <= "~" else f"\\u{ord(c):04x}" for c in text
    )  # fmt: skip


INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN = -LONG_MAX - 1

_PLAIN_DIGITS_MAX = 9
"""The number of digits that always fit 32 bits."""

_DIGITS_MAX = len(str(LONG_MAX))


class Long(int):
    """A Long constant: one that does not fit 32 bits. A property compared with it is read with 64 bits."""


Value = None | bool | int | Long | float | str
"""Java's null, Boolean, Integer, Long, Double and String."""


class JavaError(ValueError):
    """An exception that Java throws when it evaluates an expression; ``exception`` is its class."""

    exception: str


class NumberFormatError(JavaError):
    exception = NUMBER_FORMAT_EXCEPTION

    def __init__(self, text: str, message: str | None = None):
        super().__init__(message or f'For input string: "{text}"')


class ClassCastError(JavaError):
    exception = CLASS_CAST_EXCEPTION

    def __init__(self) -> None:
        super().__init__(
            "class java.lang.Boolean cannot be cast to class java.lang.String "
            "(java.lang.Boolean and java.lang.String are in module java.base of loader 'bootstrap')"
        )


_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
)  # fmt: skip
_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_BLANKS = "".join(map(chr, range(33)))
"""The characters that String.trim removes."""


def int32(text: str) -> int:
    """``Integer.valueOf``."""
    if len(text) <= _PLAIN_DIGITS_MAX and text.isdecimal() and text.isascii():
        return int(text)
    return _whole(text, INT_MIN, INT_MAX)


def int64(text: str) -> int:
    """``Long.valueOf``."""
    return _whole(text, LONG_MIN, LONG_MAX)


def _whole(text: str, low: int, high: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Java accepts digits of any script, but checks each UTF-16 unit, so digits beyond 16 bits do not count.
    if not digits.isdecimal() or max(digits) > "\uffff":
        raise NumberFormatError(text)
    if len(digits) > _DIGITS_MAX:
        digits = digits.lstrip("0")
        if len(digits) > _DIGITS_MAX:
            raise NumberFormatError(text)
    value = int(digits or "0")
    if text[0] == "-":
        value = -value
    if not low <= value <= high:
        raise NumberFormatError(text)
    return value


def double(text: str) -> float:
    """``Double.valueOf``."""
    text = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(text):
        return float(text.rstrip("fFdD"))
    found = _HEX_DOUBLE.fullmatch(text)
    if found is None:
        raise NumberFormatError(text, None if text else "empty String")
    try:
        return float.fromhex(found.group(1))
    except OverflowError:
        return float("-inf") if text.startswith("-") else float("inf")


def double_order(left: float, right: float) -> int:
    """``Double.compareTo``: NaN equals itself and is above all others; -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    left_key, right_key = _equal_order(left), _equal_order(right)
    return (left_key > right_key) - (left_key < right_key)


def _equal_order(value: float) -> int:
    """The sort key of two values of which neither is below the other."""
    if math.isnan(value):
        return 2
    return 0 if math.copysign(1.0, value) < 0 else 1


def double_text(value: float) -> str:
    """``Double.toString`` of a finite number. A few differ in the last digit: Java before 19 shows them too long."""
    number = Decimal(repr(value))
    if len(number.as_tuple().digits) == 1:  # Java takes the nearest number of two digits
        number = Decimal(format(value, ".1e"))
    exponent = number.adjusted()
    if -3 <= exponent < 7:
        text = format(number.normalize(), "f")
        return text if "." in text else text + ".0"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def value_text(value: Value) -> str:
    """``String.valueOf``."""
    if isinstance(value, bool | None):
        return str(value).lower() if value is not None else "null"
    return double_text(value) if isinstance(value, float) else str(value)


def boolean(text: str) -> bool:
    """``Boolean.valueOf``."""
    return text.lower() == "true"


def compare(left: Value, right: Value) -> int:
    """Below 0, 0 or above 0 for two values that are not null (``ComparisonExpression.__compare``). Text is read as the
    other side's type. Values that cannot be compared give a result below 0. JavaError for text that cannot be read
    so."""
    if isinstance(left, bool) and isinstance(right, str):
        raise ClassCastError  # Apache reads the wrong one of the two
    if isinstance(left, str):
        left = _read_as(right, left)
    elif isinstance(right, str):
        right = _read_as(left, right)
    if isinstance(left, bool) is not isinstance(right, bool):
        return -1
    if isinstance(left, float) or isinstance(right, float):
        return double_order(float(left), float(right))  # type: ignore[arg-type]
    return (left > right) - (left < right)  # type: ignore[operator]


def _read_as(other: Value, text: str) -> Value:
    if isinstance(other, str):
        return text
    if isinstance(other, bool):
        return boolean(text)
    if isinstance(other, float):
        return double(text)
    return int64(text) if isinstance(other, Long) else int32(text)
