"""Compares a consume queue with the log: the units that its records call for are compared with the files in blocks, so
a queue without damage costs little."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from rmqproto.names import SCHEDULE_TOPIC
from rmqserver.store.checks.found_files import FoundFiles
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import PRE_BLANK, UNIT

BLOCK_BYTES = 2000 * UNIT_SIZE_BYTES
"""Units of a queue compared at once."""

RUNS_OF_A_QUEUE_MAX = 1000
KEPT_BYTES = 64 * UNIT_SIZE_BYTES
"""Bytes kept of each run of wrong units, to find out whether a start repairs it."""

NO_UNIT = bytes(UNIT_SIZE_BYTES)


class UnitState(enum.Enum):
    """What stands in the place of a record's unit, or what a unit without a record is."""

    MISSING = enum.auto()
    """Nothing, though the log has the message."""
    WRONG = enum.auto()
    """A unit, but a different one."""
    OTHER_PLACE = enum.auto()
    """The record's queue offset is out of order, and another message's unit is there."""
    STRAY = enum.auto()
    """The unit points to a record of another queue or offset, or to the middle of one."""
    LOST = enum.auto()
    """The unit points to a stretch of the log without records, or behind its end."""
    HOLE = enum.auto()
    """Nothing between units, and the log has no message for it."""
    RUBBISH = enum.auto()
    """Bytes behind the end that are no unit."""


@dataclass(slots=True)
class UnitRun:
    """Consecutive units in one state. ``expected`` and ``found`` are the first of them; ``log_offset`` is that of the
    first one's record, or where the first one points."""

    state: UnitState
    queue_offset: int
    count: int
    log_offset: int
    expected: bytes = b""
    found: bytes = b""

    @property
    def end_offset(self) -> int:
        return self.queue_offset + self.count


class CheckedQueue:
    """One queue. ``next_offset`` is the queue offset that its next record must have; -1 before the first."""

    __slots__ = (
        "covered", "dropped_runs", "end_offset", "files", "life_count", "next_offset", "queue_id", "runs", "shifts",
        "topic", "unit_count", "units",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, files: FoundFiles):
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.next_offset = -1
        self.units = bytearray()
        """Expected units that were not compared yet; they end at ``next_offset``."""
        self.runs: list[UnitRun] = []
        self.dropped_runs = 0
        self.covered: list[tuple[int, int]] = []
        """Ranges of queue offsets that have records."""
        self.unit_count = 0
        self.end_offset = 0
        """Queue offset behind the last message that the log or the files know; known when everything is compared."""
        self.life_count = 1
        """How often the queue began: its topic may have been deleted and made again."""
        self.shifts: dict[int, int] = {}
        """For a delay level: how far due times differ from the default, and how often."""

    def jump(self, queue_offset: int, unit: bytes, log_offset: int) -> None:
        """Takes a record whose queue offset does not follow the last one's."""
        self.compare()
        at, files = queue_offset * UNIT_SIZE_BYTES, self.files
        there = files.span(at, UNIT_SIZE_BYTES) if at >= 0 else NO_UNIT
        if self.next_offset < 0:
            is_right = there == unit or not files.bases or files.min_offset <= at <= files.end_offset
        elif queue_offset > self.next_offset:
            is_right = there == unit or (there == NO_UNIT and not self._points_to(self.next_offset, log_offset))
        else:  # the topic was deleted and made again
            is_right = queue_offset == 0 and (there == unit or not files.bases)
            if is_right:
                self.life_count += 1
                self.runs.clear()
                self.covered.clear()
        if is_right:
            self.next_offset = queue_offset + 1
            self.units += unit
        else:
            self.add(UnitRun(UnitState.OTHER_PLACE, queue_offset, 1, log_offset, unit, there))

    def _points_to(self, queue_offset: int, log_offset: int) -> bool:
        unit = self.files.span(queue_offset * UNIT_SIZE_BYTES, UNIT_SIZE_BYTES)
        return int.from_bytes(unit[:8], "big") == log_offset

    def compare(self) -> None:
        """Compares everything expected so far with the files."""
        units, count = self.units, len(self.units) // UNIT_SIZE_BYTES
        if not count:
            return
        first = self.next_offset - count
        self.unit_count += count
        if self.covered and self.covered[-1][1] == first:
            first_covered, _ = self.covered.pop()
            self.covered.append((first_covered, self.next_offset))
        else:
            self.covered.append((first, self.next_offset))
        found = self.files.span(first * UNIT_SIZE_BYTES, len(units))
        if found != units:
            self._compare_each(first, bytes(units), found)
        units.clear()

    def _compare_each(self, first: int, expected: bytes, found: bytes) -> None:
        for at in range(0, len(expected), UNIT_SIZE_BYTES):
            wanted, there = expected[at : at + UNIT_SIZE_BYTES], found[at : at + UNIT_SIZE_BYTES]
            if wanted == there:
                continue
            log_offset, _, code = UNIT.unpack(wanted)
            if self.topic == SCHEDULE_TOPIC and wanted[:12] == there[:12]:
                shift = UNIT.unpack(there)[2] - code
                self.shifts[shift] = self.shifts.get(shift, 0) + 1
            is_missing = there in (NO_UNIT, PRE_BLANK)
            state = UnitState.MISSING if is_missing else UnitState.WRONG
            self.add(UnitRun(state, first + at // UNIT_SIZE_BYTES, 1, log_offset, wanted, there))

    def add(self, run: UnitRun) -> None:
        last = self.runs[-1] if self.runs else None
        if last is not None and last.state is run.state and last.end_offset == run.queue_offset:
            last.count += run.count
            if len(last.expected) < KEPT_BYTES:
                last.expected += run.expected
        elif len(self.runs) < RUNS_OF_A_QUEUE_MAX:
            self.runs.append(run)
        else:
            self.dropped_runs += 1

    def last_unit(self) -> bytes | None:
        """The unit before the queue's end, as it is; None if there is none."""
        if not self.end_offset:
            return None
        unit = self.files.span((self.end_offset - 1) * UNIT_SIZE_BYTES, UNIT_SIZE_BYTES)
        return unit if unit != NO_UNIT else None

    # -- units that no record calls for

    def other_units(self) -> Iterator[tuple[int, int, bytes]]:
        """Queue offset, count and bytes of what lies where the log has no record (before, between and behind its
        records): single units, and runs of empty ones. Ends with the last unit that is not empty."""
        at, end = self.files.min_offset // UNIT_SIZE_BYTES, self.files.end_offset // UNIT_SIZE_BYTES
        for begin, stop in sorted(self.covered):
            yield from self._units(at, begin)
            at = max(at, stop)
        yield from self._units(at, end, is_last=True)

    def _units(self, first: int, end: int, *, is_last: bool = False) -> Iterator[tuple[int, int, bytes]]:
        empty_since = first
        while (first := self._next_data(first, end)) < end:
            size = min(end - first, BLOCK_BYTES // UNIT_SIZE_BYTES) * UNIT_SIZE_BYTES
            block = self.files.span(first * UNIT_SIZE_BYTES, size)
            if block.count(0) != size:
                for at in range(0, size, UNIT_SIZE_BYTES):
                    unit, queue_offset = block[at : at + UNIT_SIZE_BYTES], first + at // UNIT_SIZE_BYTES
                    if unit != NO_UNIT:
                        if empty_since < queue_offset:
                            yield empty_since, queue_offset - empty_since, NO_UNIT
                        yield queue_offset, 1, unit
                        empty_since = queue_offset + 1
            first += size // UNIT_SIZE_BYTES
        if empty_since < end and not is_last:
            yield empty_since, end - empty_since, NO_UNIT

    def _next_data(self, first: int, end: int) -> int:
        """The first queue offset from ``first`` on whose unit may be anything but zeros; at most ``end``."""
        at = first * UNIT_SIZE_BYTES
        for base in self.files.bases:
            if base + self.files.file_size_bytes > at:
                file = self.files.file(base)
                data = file.next_data(max(at - base, 0))
                if data < min(file.size(), self.files.file_size_bytes):
                    return min((base + data) // UNIT_SIZE_BYTES, end)
        return end
