"""One queue of one topic: where its messages lie in the commit log. The newest units are in memory, where pulls find
them at once. They are written to the queue's file in batches, after the log, which can always rebuild them."""

from __future__ import annotations

import logging
import struct

from rmqproto.errors import StorageError
from rmqproto.java.java_numbers import LONG_MAX
from rmqserver.store.disk.segments import QUEUES_ANEW, SegmentedFile, clear
from rmqserver.store.options import UNIT_SIZE_BYTES

# A unit (ConsumeQueue, 5.5.0), big-endian: log offset i64 | record size i32 | tags code i64
UNIT = struct.Struct(">qiq")
PRE_BLANK_SIZE = 0x7FFFFFFF
PRE_BLANK = UNIT.pack(0, PRE_BLANK_SIZE, 0)
"""Fills a first file up to the queue's first offset, if that is not the start of the file."""

RECORD_SIZE_MAX_BYTES = 64 << 20
"""A unit with a larger size is damaged: a frame holds a quarter of it at most."""

UNWRITTEN_UNITS_MAX = 128
"""A queue with more unwritten units is written in the same round."""

TAIL_UNITS_KEPT = 256
"""Units kept in memory after they were written: consumers that keep up do not read the file."""

GAP_UNITS_MAX = 1_000_000
"""A larger jump of queue offsets in the log counts as damage."""

QUEUE_OFFSET_MAX = LONG_MAX // UNIT_SIZE_BYTES
"""Files are named by their first byte."""

FILES_RECOVERED = 3
"""Last files that are checked when a queue is loaded; earlier files were flushed long ago."""

SECTOR_BYTES = 512
"""A device writes a sector whole or not at all, so a unit that lies in two may be torn."""

BLOCK_UNITS = 200
"""Units read at a time when a queue's end is searched: a page of the file. Most queues are shorter."""

_SCAN_BYTES = UNIT_SIZE_BYTES * 50_000  # whole units

_log = logging.getLogger(__name__)


class ConsumeQueue:
    """Offsets here are queue offsets, counted in units.

    ``min_offset`` <= ``max_offset`` (first one not visible yet) <= ``next_offset`` (the next record gets it).
    Units from ``tail_first`` to ``next_offset`` are in ``tail``; those below ``written_offset`` are in the files.
    """

    __slots__ = (
        "indexed_log_offset", "is_deleted", "is_touched", "max_offset", "min_offset", "next_offset", "queue_id",
        "segments", "tail", "tail_first", "topic", "written_offset",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, segments: SegmentedFile):
        self.topic = topic
        self.queue_id = queue_id
        self.segments = segments
        self.min_offset = self.max_offset = self.next_offset = self.tail_first = self.written_offset = 0
        self.indexed_log_offset = 0
        """End of the newest record of this queue that recovery knows (Apache's maxPhysicOffset)."""
        self.tail = bytearray()
        self.is_touched = False
        """Whether the round that is being written has appended to it."""
        self.is_deleted = False
        """Its topic is deleted; a round written before that must not bring its files back."""

    # -- reading

    def units(self, first: int, count: int, *, cached_only: bool = False) -> bytes:
        """Raw units from ``first`` on: at most ``count``, only visible ones, all from one file. Empty if there are
        none. NotCached, with one place, if ``cached_only`` and they are in a file and not in memory."""
        end = min(first + count, self.max_offset)
        if first >= end:
            return b""
        skipped = first - self.tail_first
        if skipped >= 0:
            return bytes(self.tail[skipped * UNIT_SIZE_BYTES : (end - self.tail_first) * UNIT_SIZE_BYTES])
        size_bytes = (min(end, self.tail_first) - first) * UNIT_SIZE_BYTES
        data = self.segments.read(first * UNIT_SIZE_BYTES, size_bytes, cached_only=cached_only)
        if end > self.tail_first and len(data) == (self.tail_first - first) * UNIT_SIZE_BYTES:
            data += self.tail[: (end - self.tail_first) * UNIT_SIZE_BYTES]
        return data

    def unit(self, offset: int) -> tuple[int, int, int] | None:
        """(log offset, size, tags code), or None if there is no unit."""
        data = self.units(offset, 1)
        return UNIT.unpack(data) if len(data) == UNIT_SIZE_BYTES else None

    def tag_codes(self, first: int, count: int) -> list[int]:
        found: list[int] = []
        while count > 0 and (data := self.units(first, count)):
            found += [code for _, _, code in UNIT.iter_unpack(data)]
            first += len(data) // UNIT_SIZE_BYTES
            count -= len(data) // UNIT_SIZE_BYTES
        return found

    def forget_before(self, log_offset: int) -> None:
        """Moves ``min_offset`` to the first unit whose record lies at ``log_offset``, the start of the log, or
        later."""
        first = self.unit(self.min_offset)
        if first is not None and first[0] >= log_offset and first[1] != PRE_BLANK_SIZE:
            return
        found = self.first_at_or_after(log_offset)
        # A damaged unit that points before the log may have led the search past intact messages.
        while found > self.min_offset and (before := self.unit(found - 1)) is not None and before[0] < 0:
            found = self.first_at_or_after(log_offset, found - 1)
        self.min_offset = found

    def first_at_or_after(self, log_offset: int, end: int | None = None) -> int:
        """The first queue offset from ``min_offset`` on whose record lies at ``log_offset`` or later, else ``end``."""
        end = self.max_offset if end is None else end
        low, high = self.min_offset, end
        while low < high:
            middle = (low + high) // 2
            found = self._behind_blanks(middle, high)
            unit = self.unit(found) if found < high else None
            if unit is not None and unit[1] > 0 and unit[0] < log_offset:
                low = found + 1
            else:
                high = middle
        return self._behind_blanks(low, end)

    def _behind_blanks(self, first: int, end: int) -> int:
        """The first queue offset from ``first`` on, below ``end``, that is not a pre-blank, else ``end``. Pre-blanks
        fill gaps and the start of a first file, so they do not tell where the records around them lie."""
        count = 1  # usually there is none
        while first < end:
            data = self.units(first, min(count, end - first))
            whole = len(data) // UNIT_SIZE_BYTES
            if not whole:
                return first
            for _, size, _ in UNIT.iter_unpack(data[: whole * UNIT_SIZE_BYTES]):
                if size != PRE_BLANK_SIZE:
                    return first
                first += 1
            count = _SCAN_BYTES // UNIT_SIZE_BYTES
        return first

    def is_below_min(self, end: int) -> bool:
        """Whether nothing before stream byte ``end`` can be read anymore."""
        return end <= self.min_offset * UNIT_SIZE_BYTES and end <= self.written_offset * UNIT_SIZE_BYTES

    # -- writing

    def write_behind(self) -> None:
        """Writes the visible units that are only in memory. OSError, with nothing forgotten, if that fails."""
        while self.written_offset < self.max_offset:
            at = self.written_offset * UNIT_SIZE_BYTES
            base = self.segments.base_of(at)
            if not self.segments.bases or base > self.segments.bases[-1]:
                file = self.segments.create(base)
                if at > base:
                    file.pwrite(PRE_BLANK * ((at - base) // UNIT_SIZE_BYTES), 0)
            end = min(self.max_offset, (base + self.segments.file_size_bytes) // UNIT_SIZE_BYTES)
            start = (self.written_offset - self.tail_first) * UNIT_SIZE_BYTES
            stop = (end - self.tail_first) * UNIT_SIZE_BYTES
            self.segments.file(base).pwrite(self.tail[start:stop], at - base)
            self.written_offset = end
        surplus = self.written_offset - self.tail_first - TAIL_UNITS_KEPT
        if surplus > 0:
            del self.tail[: surplus * UNIT_SIZE_BYTES]
            self.tail_first += surplus

    def lacks_file_of(self, offset: int) -> bool:
        """Whether the queue's files begin behind ``offset``."""
        return bool(self.segments.bases) and offset * UNIT_SIZE_BYTES < self.segments.bases[0]

    def paths_since(self, offset: int) -> list[str]:
        """Files that hold units from ``offset`` on."""
        start = self.segments.base_of(offset * UNIT_SIZE_BYTES)
        return [self.segments.path(base) for base in self.segments.bases if base >= start]

    def paths_behind(self, log_offset: int) -> list[str]:
        """Files that hold units of records from ``log_offset`` on, and perhaps one before them."""
        is_one = len(self.segments.bases) == 1
        return self.paths_since(self.min_offset if is_one else self.first_at_or_after(log_offset))

    def append_recovered(self, offset: int, log_offset: int, size_bytes: int, tags_code: int) -> None:
        """Adds a unit that recovery found in the log, unless the queue has it already (Apache's
        ``putMessagePositionInfo``)."""
        end = log_offset + size_bytes
        unit = UNIT.pack(log_offset, size_bytes, tags_code)
        if end == self.indexed_log_offset and self._is_torn(offset, unit):
            self.max_offset = self.next_offset = self.written_offset = self.tail_first = offset
        elif end <= self.indexed_log_offset:
            return
        self.indexed_log_offset = end
        if offset < self.next_offset:
            return
        if offset > self.next_offset and not self.skip_to(offset):
            return
        self.tail += unit
        self.next_offset = self.max_offset = offset + 1

    def append_run(self, first: int, units: bytes) -> None:
        """As ``append_recovered``, for consecutive units, the first at queue offset ``first``."""
        log_offset, _, _ = UNIT.unpack_from(units)
        if first != self.next_offset or log_offset < self.indexed_log_offset:
            for offset, unit in enumerate(UNIT.iter_unpack(units), first):
                self.append_recovered(offset, *unit)
            return
        log_offset, size_bytes, _ = UNIT.unpack_from(units, len(units) - UNIT_SIZE_BYTES)
        self.indexed_log_offset = log_offset + size_bytes
        self.tail += units
        self.next_offset = self.max_offset = first + len(units) // UNIT_SIZE_BYTES

    def _is_torn(self, offset: int, unit: bytes) -> bool:
        """Whether the last unit, at ``offset``, was loaded without its end, which ``unit`` has."""
        is_last_loaded = offset == self.next_offset - 1 and not self.tail
        return is_last_loaded and _lies_in_two_sectors(offset) and self.units(offset, 1) != unit

    def skip_to(self, offset: int) -> bool:
        """Makes ``offset`` the next one. False if the jump is implausible: the record's header is damaged."""
        if self.next_offset == 0 and not self.segments.bases and offset <= QUEUE_OFFSET_MAX:
            self.min_offset = self.tail_first = self.written_offset = self.max_offset = self.next_offset = offset
            return True
        gap = offset - self.next_offset
        if gap > GAP_UNITS_MAX:
            _log.warning("%s-%d: record with queue offset %d passed over, %d was expected",
                         self.topic, self.queue_id, offset, self.next_offset)  # fmt: skip
            return False
        _log.warning(
            "%s-%d: nothing leads to messages %d to %d: the log lost them, or the queue lost its files; "
            "rmqadmin store verify tells which",
            self.topic, self.queue_id, self.next_offset, offset,
        )  # fmt: skip
        self.tail += PRE_BLANK * gap
        self.next_offset = self.max_offset = offset
        return True

    # -- recovery

    def load(self, *, clean: bool, read_only: bool) -> None:
        """Finds the end among the last three files: the first invalid unit, as Apache does. After a crash everything
        behind it is zeroed, so that stale units can never join new ones. StorageError if a later file goes on after a
        clean stop: new messages would get the queue offsets of those behind the damage."""
        self.segments.load(read_only=read_only, is_derived=not clean)
        if not self.segments.bases:
            return
        first = self.segments.bases[-FILES_RECOVERED:][0] // UNIT_SIZE_BYTES
        end = self._search_end(first)
        if clean:
            self._refuse_hole(end)
        else:
            end = self._first_hole(first, end)
            while end > first and not self._is_valid(end - 1):  # torn: its second sector did not reach the device
                end -= 1
        self.min_offset = self.segments.min_offset // UNIT_SIZE_BYTES
        self._set_end(end)
        if not clean and not read_only:
            self._clear_behind(end)

    def truncate(self, log_offset: int, *, read_only: bool = False) -> None:
        """Forgets units of records that do not end at or before ``log_offset``, the end of the log."""
        end = self.max_offset
        if self.indexed_log_offset <= log_offset:
            return
        end = self.first_at_or_after(log_offset)
        if end > self.min_offset and (last := self.unit(end - 1)) and last[0] + last[1] > log_offset:
            end -= 1
        self._set_end(end)
        if not read_only:
            self._clear_behind(end)

    def _set_end(self, end: int) -> None:
        self.min_offset = min(self.min_offset, end)
        self.max_offset = self.next_offset = self.written_offset = self.tail_first = end
        self.tail.clear()
        last = self.unit(end - 1) if end > self.min_offset else None
        self.indexed_log_offset = last[0] + last[1] if last and last[1] != PRE_BLANK_SIZE else 0

    def _is_valid(self, offset: int) -> bool:
        return _is_valid(self.segments.read(offset * UNIT_SIZE_BYTES, UNIT_SIZE_BYTES), 0)

    def _search_end(self, low: int) -> int:
        """The first invalid unit from ``low`` on: steps that double, then bisection."""
        high, step = self.segments.end_offset // UNIT_SIZE_BYTES, BLOCK_UNITS
        while low + step <= high and self._is_valid(low + step - 1):
            low += step
            step *= 2
        high = min(high, low + step)
        first, block = low, b""
        while low < high:
            if not block and high - low <= BLOCK_UNITS:
                first, block = low, self.segments.read(low * UNIT_SIZE_BYTES, (high - low) * UNIT_SIZE_BYTES)
            middle = (low + high) // 2
            at = (middle - first) * UNIT_SIZE_BYTES
            if _is_valid(block, at) if at < len(block) else self._is_valid(middle):
                low = middle + 1
            else:
                high = middle
        return low

    def _refuse_hole(self, end: int) -> None:
        last_file = self.segments.bases[-1] // UNIT_SIZE_BYTES
        if end < last_file and self._is_valid(last_file):
            path = self.segments.path(self.segments.base_of(end * UNIT_SIZE_BYTES))
            raise StorageError(
                f"{path}: no unit of a message at queue offset {end}, though there are some behind it",
                hint=QUEUES_ANEW,
            )

    def _first_hole(self, start: int, end: int) -> int:
        """The first all-zero unit in [start, end): a page that a power cut kept from the disk. Twenty consecutive zero
        bytes occur nowhere else: log offset or size interrupts every shorter run."""
        at, stop = start * UNIT_SIZE_BYTES, end * UNIT_SIZE_BYTES
        while at < stop:
            data = self.segments.read(at, min(_SCAN_BYTES, stop - at))
            hole = data.find(bytes(UNIT_SIZE_BYTES))
            if hole >= 0:
                return (at + hole + UNIT_SIZE_BYTES - 1) // UNIT_SIZE_BYTES
            at += len(data)
        return end

    def _clear_behind(self, end: int) -> None:
        at = end * UNIT_SIZE_BYTES
        self.segments.delete_after(at)
        clear(self.segments, at)


def _lies_in_two_sectors(offset: int) -> bool:
    return offset * UNIT_SIZE_BYTES % SECTOR_BYTES > SECTOR_BYTES - UNIT_SIZE_BYTES


def _is_valid(units: bytes, at: int) -> bool:
    log_offset, size, _ = UNIT.unpack_from(units, at)
    return bool(log_offset >= 0 and size > 0)
