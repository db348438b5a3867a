"""Numbers over time: the one home of samples, for sparklines, trends and growth. It keeps the last minutes only."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

SAMPLES_MAX = 240
"""Of one series: eight minutes at two seconds."""

SERIES_MAX = 4000
"""The one that was added to the longest ago is forgotten."""


class Series(NamedTuple):
    """``what`` is broker, topic, group, queue or dead letters; ``field`` is the number's name, its unit last."""

    what: str
    name: str
    field: str


class NumberAt(NamedTuple):
    """``value`` None: it was asked for, and nobody told."""

    at_ms: int
    value: float | None


HELD_MS = 35_000
"""What was read is taken to hold for so long: groups that nobody looks at are asked every 30 s."""


def per_column(samples: Sequence[NumberAt], begin_ms: int, end_ms: int, width: int) -> list[float | None]:
    """Samples, oldest first, on an axis of time with ``width`` columns: in each the most of what was read in its time,
    or what was read last before it. None where nothing was read for HELD_MS, and where nobody knew."""
    length_ms = max(1, end_ms - begin_ms)
    columns: list[float | None] = []
    at, last = 0, NumberAt(begin_ms, None)
    while at < len(samples) and samples[at].at_ms < begin_ms:
        last, at = samples[at], at + 1
    for column in range(width):
        column_end_ms = begin_ms + length_ms * (column + 1) // width
        within = []
        while at < len(samples) and (samples[at].at_ms < column_end_ms or column == width - 1):
            last, at = samples[at], at + 1
            within.append(last.value)
        known = [value for value in within if value is not None]
        if within:
            columns.append(max(known, default=None))
        else:
            columns.append(last.value if column_end_ms - last.at_ms <= HELD_MS else None)
    return columns


class NumberChange(NamedTuple):
    """How a number has changed between two samples. ``is_whole``: the time that was asked for is known from its begin
    on."""

    by: float
    over_ms: int
    is_whole: bool = False

    @property
    def per_s(self) -> float:
        return self.by * 1000 / self.over_ms if self.over_ms else 0.0


class NumberHistory:
    """Not for several threads."""

    def __init__(self) -> None:
        self._samples: dict[Series, deque[NumberAt]] = {}
        self._lacking: dict[Series, frozenset[str]] = {}

    def add(self, series: Series, at_ms: int, value: float | None, lacking: Collection[str] = ()) -> None:
        """``lacking``: brokers that the value, a sum, lacks. If it lacks others than the one before, there is a gap
        between them."""
        found = self._samples.pop(series, None)
        lacks = frozenset(lacking)
        if found is None:
            found = deque(maxlen=SAMPLES_MAX)
            if len(self._samples) >= SERIES_MAX:
                oldest = next(iter(self._samples))
                del self._samples[oldest]
                self._lacking.pop(oldest, None)
        elif lacks != self._lacking.get(series, frozenset()):
            found.append(NumberAt(at_ms, None))
        self._lacking.pop(series, None)
        if lacks:
            self._lacking[series] = lacks
        found.append(NumberAt(at_ms, value))
        self._samples[series] = found  # behind the others

    def samples(self, series: Series) -> list[NumberAt]:
        """Oldest first; none of a series that nobody added to."""
        return list(self._samples.get(series, ()))

    def values(self, series: Series, count: int) -> list[float | None]:
        """The last ``count`` at most. Where nothing was read for HELD_MS, there is a gap: None."""
        found: list[float | None] = []
        before_ms: int | None = None
        for at_ms, value in self.samples(series)[-count:]:
            if before_ms is not None and at_ms - before_ms > HELD_MS:
                found.append(None)
            found.append(value)
            before_ms = at_ms
        return found[-count:]

    def lacking(self, series: Series) -> frozenset[str]:
        """The brokers that its last value, a sum, lacks."""
        return self._lacking.get(series, frozenset())

    def change(self, series: Series, within_ms: int) -> NumberChange | None:
        """From the first value of the last ``within_ms`` to the last one, without a gap between them: what came before
        a gap may not have been the same sum. None if there are not two such values."""
        end: tuple[int, float] | None = None
        begin_ms, begin, is_whole = 0, 0.0, False
        for at_ms, value in reversed(self._samples.get(series, ())):
            is_whole = end is not None and at_ms < end[0] - within_ms
            if value is None or is_whole:
                break
            end = end or (at_ms, value)
            begin_ms, begin = at_ms, value
        return None if end is None or begin_ms == end[0] else NumberChange(end[1] - begin, end[0] - begin_ms, is_whole)
