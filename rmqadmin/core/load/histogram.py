"""How long many things took: counts by length, three digits of which are kept, so that a minute of load and an hour of
it take the same room."""

from __future__ import annotations

_EXACT_BITS = 11
"""Lengths of up to 2,047 us are kept as they are, longer ones to one part in a thousand."""


class Histogram:
    """Counts of lengths in microseconds."""

    __slots__ = ("counts",)

    def __init__(self, counts: dict[int, int] | None = None):
        self.counts: dict[int, int] = {} if counts is None else counts

    def add(self, length_us: int, count: int = 1) -> None:
        surplus = length_us.bit_length() - _EXACT_BITS
        if surplus > 0:
            length_us = length_us >> surplus << surplus
        self.counts[length_us] = self.counts.get(length_us, 0) + count

    def merge(self, other: Histogram) -> None:
        for length_us, count in other.counts.items():
            self.counts[length_us] = self.counts.get(length_us, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def percentiles_ms(self, percents: tuple[float, ...]) -> list[float | None]:
        """The length that so many percent do not exceed, for ascending ``percents``; None of nothing."""
        if not self.counts:
            return [None] * len(percents)
        total, seen, found = self.total, 0, []
        lengths = iter(sorted(self.counts.items()))
        length_us = 0
        for percent in percents:
            while seen < total * percent / 100 and (each := next(lengths, None)) is not None:
                length_us, count = each
                seen += count
            found.append(length_us / 1000)
        return list(found)
