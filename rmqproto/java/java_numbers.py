"""Numbers within the ranges of Java's int and long: of fields that come from outside, because Apache's broker must be
able to read our tables and files; and as users write them, in digits and nothing that only Python takes (5_000, nan,
digits of other scripts)."""

from __future__ import annotations

import math
import re
from typing import Annotated

import msgspec

from rmqproto.errors import UsageError

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
"""As a time in ms it means "no end"."""

_DIGITS_MAX = len(str(LONG_MAX))
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"[+-]?[0-9]+")


def saturated(number: int) -> int:
    """The nearest number that a Java long can hold."""
    return max(-LONG_MAX - 1, min(number, LONG_MAX))


def decimal_number(text: str) -> float | None:
    """The finite number that a text stands for, with blanks around it or not; None for any other text."""
    found = float(text) if _DECIMAL.fullmatch(text.strip()) else math.inf
    return found if math.isfinite(found) else None


def signed_number(text: str) -> int | None:
    """The whole number that a text stands for, with blanks around it or not; None for any other text."""
    return int(text) if is_whole(text) and len(text.strip().lstrip("+-")) <= _DIGITS_MAX else None


def is_whole(text: str) -> bool:
    """Whether a text is a whole number, of any size, with blanks around it or not."""
    return _WHOLE.fullmatch(text.strip()) is not None


def check_range(what: str, text: str, highest: int) -> None:
    """UsageError, which names ``what`` and the limit, for a number that Java's int or long, whose largest number is
    ``highest``, cannot hold. A text that is no whole number passes: others say so."""
    try:
        number = int(text)
    except ValueError:
        return
    if number > highest:
        raise UsageError(f"{what} {text.strip()} is too large: the most is {highest}")
    if number < -highest - 1:
        raise UsageError(f"{what} {text.strip()} is too small: the least is {-highest - 1}")


def whole_number(text: str, highest: int = INT_MAX) -> int | None:
    """The number that decimal digits stand for; None for any other text, and beyond ``highest``."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX or int(text) > highest:
        return None
    return int(text)
