"""Numbers as wide as Java's, for fields that come from outside. Apache's broker must be able to read our tables and
files, so they must not take a number that it cannot hold."""

from __future__ import annotations

from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
"""Where a time in ms is asked for, it means that there is no end."""


def saturated(number: int) -> int:
    """The nearest number that a Java long holds."""
    return max(-LONG_MAX - 1, min(number, LONG_MAX))
