"""How long many things took: counts by duration, to three digits, so that an hour of load takes no more memory than a
minute."""

from __future__ import annotations

_EXACT_BITS = 11
"""Durations of up to 2,047 us are kept exactly, longer ones to one part in a thousand."""


class Histogram:
    """Counts of durations in microseconds."""

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
        """For ascending ``percents``, the duration that each percentage does not exceed; None if there are no
        counts."""
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
