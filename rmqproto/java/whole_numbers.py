"""Whole numbers that users write, within the ranges of RocketMQ's fields: Java's int and long. A server answers a
number beyond them with an error about its own code."""

from __future__ import annotations

from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX

_DIGITS_MAX = len(str(LONG_MAX))


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
