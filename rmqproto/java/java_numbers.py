"""Numbers in Java's ranges, for fields that come from outside. Apache's broker must be able to read our tables and
files, so they must not contain a number that it cannot hold."""

from __future__ import annotations

from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
"""As a time in ms it means "no end"."""


def saturated(number: int) -> int:
    """The nearest number that a Java long can hold."""
    return max(-LONG_MAX - 1, min(number, LONG_MAX))
