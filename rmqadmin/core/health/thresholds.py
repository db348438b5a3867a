"""Thresholds of checks, as people write them: ``1000``, ``10k``, ``1.5M`` messages; ``90s``, ``5m``, ``1h30m`` of time;
``80%``; ``256MiB``. Several are joined by commas, and exceeding one is enough. A value equal to its threshold is
fine."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum

from rmqproto.errors import UsageError
from rmqproto.times import parse_duration

_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([kMG]?)")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGT])iB")
_MULTIPLES = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_SIZE_POWERS = "KMGT"
_DURATION_LENGTH_MAX = 40


class Quantity(Enum):
    """What a threshold measures; the value is an example of how it is written."""

    COUNT = "10k"
    TIME_MS = "5m"
    PERCENT = "80%"
    BYTES = "256MiB"


Thresholds = dict[Quantity, float]
"""Thresholds, each in the unit that its quantity's name gives."""


def parse_thresholds(text: str, option: str, known: Collection[Quantity]) -> Thresholds:
    """Parses thresholds. UsageError for an invalid threshold, a quantity that is not ``known``, or one given twice."""
    found: Thresholds = {}
    for part in text.split(","):
        quantity, value = _parsed(part.strip(), known)
        if quantity is None or quantity not in known:
            examples = " or ".join(each.value for each in Quantity if each in known)
            raise UsageError(
                f"{option}: {part.strip()!r} is not a threshold here", hint=f"Write for example {examples}."
            )
        if quantity in found:
            raise UsageError(f"{option}: {text!r} has two thresholds of one kind")
        found[quantity] = value
    return found


def _parsed(text: str, known: Collection[Quantity]) -> tuple[Quantity | None, float]:
    """A quantity and its value. A bare number is a percentage if only percentages are known."""
    if not text.isascii():
        return None, 0.0
    if number := _NUMBER.fullmatch(text):
        value = float(number[1]) * _MULTIPLES[number[2]]
        if set(known) == {Quantity.PERCENT} and not number[2]:
            return Quantity.PERCENT, value
        return Quantity.COUNT, value
    if percent := _PERCENT.fullmatch(text):
        return Quantity.PERCENT, float(percent[1])
    if size := _SIZE.fullmatch(text):
        return Quantity.BYTES, float(size[1]) * 1024 ** (_SIZE_POWERS.index(size[2]) + 1)
    length_ms = parse_duration(text) if len(text) <= _DURATION_LENGTH_MAX and text[:1].isdecimal() else None
    return (None, 0.0) if length_ms is None else (Quantity.TIME_MS, float(length_ms))
