"""How a number of things is worded, in the errors, notices and findings of every package."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``1 queue``, ``2 queues``, ``1,000 queues``; ``plural`` where it is not made with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
