"""Numbers over time, for sparklines, trends and growth, of which the last minutes are kept; and the log of changes
while the dashboard runs: brokers, topics, groups, members, dead letters."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from rmqadmin.core.health.finding import Subject, SubjectKind
from rmqadmin.core.tables.marks import Mark
from rmqproto.wording import NAMES_TOLD_MAX, names_told

SAMPLES_MAX = 240
"""Samples kept of one series: eight minutes at one every 2 s."""

SERIES_MAX = 4000
"""Beyond this many, the least recently updated series is forgotten."""


class Series(NamedTuple):
    """The key of a series. ``what`` is broker, topic, group, queue, dead letters or cluster; ``field`` is the number's
    name, ending in its unit."""

    what: str
    name: str
    field: str


def cluster_series(field: str) -> Series:
    """The series of a sum over the cluster: ``in_tps``, ``out_tps``, ``lag_count``."""
    return Series("cluster", "", field)


class NumberAt(NamedTuple):
    """A sample. ``value`` is None if it was asked for without an answer."""

    at_ms: int
    value: float | None


HELD_MS = 35_000
"""How long a reading counts as current: groups that no screen shows are read every 30 s."""


def per_column(samples: Sequence[NumberAt], begin_ms: int, end_ms: int, width: int) -> list[float | None]:
    """Samples, oldest first, in ``width`` columns of a time axis. A column has the largest value read in its time, or
    else the last one before. None if nothing was read for HELD_MS, or if the value was unknown."""
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
    """How a number has changed between two samples. ``is_whole`` if samples cover the wanted time from its
    beginning."""

    by: float
    over_ms: int
    is_whole: bool = False

    @property
    def per_s(self) -> float:
        return self.by * 1000 / self.over_ms if self.over_ms else 0.0


class NumberHistory:
    """All series. Not thread-safe."""

    def __init__(self) -> None:
        self._samples: dict[Series, deque[NumberAt]] = {}
        self._lacking: dict[Series, frozenset[str]] = {}

    def add(self, series: Series, at_ms: int, value: float | None, lacking: Collection[str] = ()) -> None:
        """Adds a value. ``lacking``: brokers missing from it, if it is a sum. If the previous value lacked other
        brokers, there is a gap between the two. A second value of one moment replaces the first: in a recording, time
        stands still, and screens read the same again and again."""
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
        elif found and found[-1].at_ms == at_ms:
            found.pop()
        self._lacking.pop(series, None)
        if lacks:
            self._lacking[series] = lacks
        found.append(NumberAt(at_ms, value))
        self._samples[series] = found  # now the most recent series

    def samples(self, series: Series) -> list[NumberAt]:
        """The samples of a series, oldest first; empty for an unknown one."""
        return list(self._samples.get(series, ()))

    def values(self, series: Series, count: int) -> list[float | None]:
        """The last values of a series, ``count`` at most. None marks a gap where nothing was read for HELD_MS."""
        found: list[float | None] = []
        before_ms: int | None = None
        for at_ms, value in self.samples(series)[-count:]:
            if before_ms is not None and at_ms - before_ms > HELD_MS:
                found.append(None)
            found.append(value)
            before_ms = at_ms
        return found[-count:]

    def lacking(self, series: Series) -> frozenset[str]:
        """The brokers missing from the series' last value."""
        return self._lacking.get(series, frozenset())

    def change(self, series: Series, within_ms: int) -> NumberChange | None:
        """The change from the first value within the last ``within_ms`` to the last one, without a gap between them: a
        sum before a gap may have other parts. None without two such values."""
        end: tuple[int, float] | None = None
        begin_ms, begin, is_whole = 0, 0.0, False
        for at_ms, value in reversed(self._samples.get(series, ())):
            is_whole = end is not None and at_ms < end[0] - within_ms
            if value is None or is_whole:
                break
            end = end or (at_ms, value)
            begin_ms, begin = at_ms, value
        return None if end is None or begin_ms == end[0] else NumberChange(end[1] - begin, end[0] - begin_ms, is_whole)


CHANGES_MAX = 500


class ChangeSeen(msgspec.Struct, frozen=True):
    """One entry of the log. ``subject`` is None if there are several. ``number`` counts up."""

    number: int
    at_ms: int
    subject: Subject | None
    text: str
    mark: Mark | None = None


class ChangeLog:
    """The log, newest entries last."""

    def __init__(self) -> None:
        self._changes: deque[ChangeSeen] = deque(maxlen=CHANGES_MAX)
        self._count = 0

    def add(self, at_ms: int, subject: Subject | None, text: str, mark: Mark | None = None) -> ChangeSeen:
        self._count += 1
        change = ChangeSeen(self._count, at_ms, subject, text, mark)
        self._changes.append(change)
        return change

    def replace(self, before: ChangeSeen, at_ms: int, text: str) -> ChangeSeen:
        """Replaces an entry because the same change has continued. The entry's time becomes ``at_ms``."""
        with suppress(ValueError):  # too old to be kept
            self._changes.remove(before)
        return self.add(at_ms, before.subject, text, before.mark)

    def newest_first(self) -> list[ChangeSeen]:
        return list(reversed(self._changes))

    def since(self, at_ms: int) -> int:
        """How many kept changes came after ``at_ms``."""
        return sum(change.at_ms > at_ms for change in self._changes)

    def add_names(
        self,
        at_ms: int,
        kind: SubjectKind,
        before: Collection[str],
        after: Collection[str],
        *,
        tells_new: bool = True,
        tells_deleted: bool = True,
    ) -> None:
        """Logs names that have come or gone. ``tells_new`` and ``tells_deleted`` are False if ``before`` and ``after``
        cannot show that."""
        new = set(after) - set(before) if tells_new else set()
        deleted = set(before) - set(after) if tells_deleted else set()
        for names, one, many in ((new, "is new", "are new"), (deleted, "was deleted", "were deleted")):
            if len(names) > NAMES_TOLD_MAX:
                self.add(at_ms, None, f"{len(names):,} {kind}s {many}: {names_told(sorted(names))}")
            else:
                for name in sorted(names):
                    self.add(at_ms, Subject(kind, name), f"{kind} {one}")
