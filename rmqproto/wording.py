"""The wording of counts in the errors, notices and findings of every package."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``1 queue``, ``2 queues``, ``1,000 queues``; ``plural`` is for nouns whose plural is not made with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
