"""A walk over the units of a queue, for a pull that does not want every message (``DefaultMessageStore.getMessage``,
5.5.0). The second stage of a filter asks for a message's properties, so the record has to be read before the store
knows whether it is wanted (``MessageFilter.isMatchedByCommitLog``)."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sized
from typing import NamedTuple

from rmqproto.filters.message_filter import AcceptsRawProperties
from rmqserver.core import take_wanted
from rmqserver.store.log.commit_log import GAP_MAX_BYTES, SPAN_MAX_BYTES, CommitLog
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import RECORD_SIZE_MAX_BYTES, UNIT
from rmqserver.store.results import GetStatus, LogRange, Walk


@functools.lru_cache(maxsize=256)
def sizes_struct(count: int) -> struct.Struct:
    """Unpacks only the record sizes of ``count`` units."""
    return struct.Struct(">" + "8xi8x" * count)


@functools.lru_cache(maxsize=256)
def offsets_struct(count: int) -> struct.Struct:
    """Unpacks only the log offsets of ``count`` units."""
    return struct.Struct(">" + "q12x" * count)


class WalkLimits(NamedTuple):
    """Messages and bytes that a pull takes at most, for records in memory (from a log offset on) and for others; and
    where the log begins. The first message is taken whatever its size."""

    in_memory: tuple[int, int]
    on_disk: tuple[int, int]
    in_memory_from: int
    log_min: int

    def of(self, log_offset: int) -> tuple[int, int]:
        return self.in_memory if log_offset >= self.in_memory_from else self.on_disk


class UnitWalk:
    """Selects by tags codes alone. The wanted records are in ``ranges``. ``seen`` units were looked at, the last one
    that of the record at ``last_log_offset``. ``status`` tells why the last unwanted one was refused."""

    def __init__(self, walk: Walk, limits: WalkLimits):
        self.ranges: list[LogRange] = []
        self._taken: Sized = self.ranges
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.seen = self.last_log_offset = 0
        self._units = walk.units
        self._accepts_code = walk.wanted.accepts_code
        self._limits = limits
        self._total = 0

    def go(self) -> bool:
        """Walks until a limit is reached or the units end. False if it would have to wait."""
        for log_offset, size, tags_code in UNIT.iter_unpack(self._units):
            if self.ranges and self._is_full(log_offset, size):
                break
            self.seen += 1
            self.last_log_offset = log_offset
            refused = self._first_stage(log_offset, size, tags_code)
            if refused is None:
                self.ranges.append((log_offset, size))
                self._total += size
            else:
                self.status = refused
        return True

    def _is_full(self, log_offset: int, size: int) -> bool:
        count_max, bytes_max = self._limits.of(log_offset)
        return len(self._taken) >= count_max or self._total + size > bytes_max

    def _first_stage(self, log_offset: int, size: int, tags_code: int) -> GetStatus | None:
        """Why the record is refused; None if it is taken."""
        if log_offset < self._limits.log_min or not 0 < size <= RECORD_SIZE_MAX_BYTES:  # removed, a blank, or damaged
            return GetStatus.MESSAGE_WAS_REMOVING
        is_taken = self._accepts_code is None or self._accepts_code(tags_code)
        return None if is_taken else GetStatus.NO_MATCHED_MESSAGE


PORTION_RECORDS = 64
SMALL_RECORD_BYTES = 2 << 10
PORTION_BYTES = 256 << 10
"""Records read at a time, half as many if they are not small: neighbours share a system call, and little is read in
vain."""

READ_BYTES_MAX = 4 << 20
"""Bytes that one pull reads at most for its second stage, not counting the record that passes. This limit is ours:
Apache limits only the units, and 800 units may stand for three gigabytes."""


class RecordWalk(UnitWalk):
    """Selects by tags codes and record properties; records are read in portions, and the wanted ones are in
    ``records``. With ``cached_only`` it reads nothing if that may wait."""

    def __init__(
        self, log: CommitLog, walk: Walk, limits: WalkLimits, accepts: AcceptsRawProperties, *, cached_only: bool
    ):
        super().__init__(walk, limits)
        self._taken = self.records = list[bytes]()
        self._accepts = accepts
        self._accepts_values = walk.wanted.accepts_values
        self._log = log
        self._cached_only = cached_only
        self._read_bytes = 0

    def go(self) -> bool:
        units_size = len(self._units)
        while (at := self.seen * UNIT_SIZE_BYTES) < units_size and self._read_bytes < READ_BYTES_MAX:
            log_offset, size, _ = UNIT.unpack_from(self._units, at)
            count = PORTION_RECORDS if size <= SMALL_RECORD_BYTES else PORTION_RECORDS // 2
            units = self._units[at : at + count * UNIT_SIZE_BYTES]
            if self.records and self._is_full(log_offset, size):
                break
            near_bytes, seen = self._near_bytes(units, log_offset), 0
            if near_bytes:
                data = self._read(log_offset, near_bytes)
                if data is None:
                    return False
                seen = self._take_near(units, log_offset, data)
            if not seen and not self._take_each(units):
                return False
        return True

    # --- a portion that is one read ----------------------------------------------------------------------------------

    def _near_bytes(self, units: bytes, log_offset: int) -> int:
        """Bytes from the start of the first record to the end of the last, in the common case: the records lie near
        each other, all are to be read, and only their number may exceed a limit. 0 in other cases."""
        limits = self._limits
        if self._accepts_code is not None or log_offset < limits.in_memory_from or log_offset < limits.log_min:
            return 0
        count = len(units) // UNIT_SIZE_BYTES
        size_bytes = sum(sizes_struct(count).unpack(units))
        last_log_offset, last_size, _ = UNIT.unpack_from(units, len(units) - UNIT_SIZE_BYTES)
        span_bytes: int = last_log_offset + last_size - log_offset
        is_near = size_bytes <= span_bytes <= min(SPAN_MAX_BYTES, size_bytes + count * GAP_MAX_BYTES)
        return span_bytes if is_near and size_bytes <= min(PORTION_BYTES, limits.in_memory[1] - self._total) else 0

    def _read(self, log_offset: int, size: int) -> bytes | None:
        self._read_bytes += size
        return self._log.read_cached(log_offset, size) if self._cached_only else self._log.read(log_offset, size)

    def _take_near(self, units: bytes, log_offset: int, data: bytes) -> int:
        """Returns the number of units looked at; 0, with nothing changed, if ``data`` does not hold exactly these
        records (it is shorter at a file's end)."""
        count_max = max(1, self._limits.in_memory[0])
        seen = take_wanted(data, units, log_offset, self._accepts, self._accepts_values, self.records, count_max)
        if seen:
            self.seen += seen
            self.last_log_offset, _, _ = UNIT.unpack_from(units, (seen - 1) * UNIT_SIZE_BYTES)
            self.status = GetStatus.NO_MATCHED_MESSAGE
            self._total = sum(map(len, self.records))
        return seen

    # --- one by one --------------------------------------------------------------------------------------------------

    def _take_each(self, units: bytes) -> bool:
        """Goes unit by unit, as Apache does, and reads only records that the first stage accepts. False, with nothing
        changed, if a read may wait."""
        portion: list[tuple[int, int, GetStatus | None]] = []
        ranges: list[LogRange] = []
        size_bytes = 0
        for log_offset, size, tags_code in UNIT.iter_unpack(units):
            if size_bytes >= PORTION_BYTES:
                break
            refused = self._first_stage(log_offset, size, tags_code)
            portion.append((log_offset, size, refused))
            if refused is None:
                ranges.append((log_offset, size))
                size_bytes += size
        found = self._log.read_ranges(ranges, cached_only=self._cached_only)
        if found is None:
            return False
        self._read_bytes += size_bytes
        records = iter(found)
        for log_offset, size, refused in portion:
            if self.records and self._is_full(log_offset, size):
                break
            self.seen += 1
            self.last_log_offset = log_offset
            refused = refused or self._second_stage(size, next(records))
            self.status = refused or self.status
        return True

    def _second_stage(self, size: int, record: bytes) -> GetStatus | None:
        """Why the record is refused; None if it is taken."""
        if len(record) < size:
            return GetStatus.MESSAGE_WAS_REMOVING
        if not is_wanted_untrusted(record, self._accepts):
            return GetStatus.NO_MATCHED_MESSAGE
        self.records.append(record)
        self._total += size
        return None


def is_wanted_untrusted(record: bytes, accepts_properties: AcceptsRawProperties) -> bool:
    """Whether the second stage accepts a record. It never accepts a damaged one."""
    found: list[bytes] = []
    take_wanted(record, UNIT.pack(0, len(record), 0), 0, accepts_properties, None, found, 1)
    return bool(found)
