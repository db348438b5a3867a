"""The wording of counts and of many names in the errors, notices and findings of every package."""

from __future__ import annotations

from collections.abc import Sequence

NAMES_TOLD_MAX = 5
QUEUES_TOLD_MAX = 8


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``1 queue``, ``2 queues``, ``1,000 queues``; ``plural`` is for nouns whose plural is not made with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def names_told(names: Sequence[str], told_max: int = NAMES_TOLD_MAX) -> str:
    """Names in short: ``a, b and 7 more``."""
    shown = ", ".join(names[:told_max])
    left = len(names) - told_max
    return f"{shown} and {left:,} more" if left > 0 else shown
