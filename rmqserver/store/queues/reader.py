"""Reads a queue for a pull: which units, within which limits, with what status and next offset
(``DefaultMessageStore.getMessage``, 5.5.0). Most pulls take records that are consecutive in the log: one read returns
them, and one sum of sizes shows that they are."""

from __future__ import annotations

import functools
import os
from itertools import accumulate

from msgspec.structs import replace

from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqserver.core import PlainPulls
from rmqserver.store.disk.cached_reads import NotCached
from rmqserver.store.log.commit_log import HOT_BYTES, CommitLog
from rmqserver.store.options import UNIT_SIZE_BYTES, StoreOptions
from rmqserver.store.queues.consume_queue import UNIT, ConsumeQueue
from rmqserver.store.queues.walks import RecordWalk, UnitWalk, WalkLimits, offsets_struct, sizes_struct
from rmqserver.store.results import GetResult, GetStatus, Walk

TRANSFER_BYTES_MAX = 128 << 20
"""Limits of any pull; a first message is returned whatever its size."""

TRANSFER_BYTES_MIN = 100

_FOUND = GetStatus.FOUND  # a member looked up by name costs ten times as much as a global

FILES_KEPT_MS = 1000
"""How long the core keeps files open that it reads again and again."""


@functools.cache
def physical_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Reader:
    """Answers pulls. Holds the limits of the options, worked out once."""

    def __init__(self, log: CommitLog, options: StoreOptions):
        self._log = log
        core = PlainPulls(log, HOT_BYTES, FILES_KEPT_MS)
        self._read_run, self.let_go = core.read_run, core.forget
        """The second lets go of the files that the core keeps open: some may be removed."""
        self.use_options(options)

    def use_options(self, options: StoreOptions) -> None:
        self._options = options
        self._memory_bytes = physical_memory_bytes() * options.memory_percent_for_messages // 100

    def get(
        self,
        queue: ConsumeQueue | None,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        wanted: MessageFilter | None,
        cached_only: bool,
    ) -> GetResult:
        """See ``MessageStore.get``."""
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if not low <= queue_offset < high:
            return _outside(queue_offset, low, high)
        result = GetResult(_FOUND, queue_offset, low, high)
        if not TRANSFER_BYTES_MIN <= max_bytes <= TRANSFER_BYTES_MAX:
            max_bytes = TRANSFER_BYTES_MIN if max_bytes < TRANSFER_BYTES_MIN else TRANSFER_BYTES_MAX
        wanted = wanted or EVERYTHING
        takes_all = wanted is EVERYTHING or (wanted.accepts_code is None and wanted.accepts_properties is None)
        if takes_all and not cached_only:
            count, unit_count, size_max, memory = self.plain_limits(max_count, takes_all=True)
            limits = count, unit_count, min(size_max, max_bytes), memory
            log_end, _ = self._log.last_write  # what was just written is at hand without the disk
            if (found := self._read_run(queue, queue_offset, limits, log_end)) is not None:
                records, result.sizes, result.is_run = found
                result.chunks = [records]
                result.next_offset = queue_offset + len(result.sizes)
                return result
        try:
            if not takes_all or not self._take_run(result, queue, max_count, max_bytes, cached_only):
                units = queue.units(queue_offset, self._scan_count_max(max_count), cached_only=cached_only)
                if not units:
                    # A file of the queue cannot be read: the next one may be readable.
                    result.status = GetStatus.OFFSET_FOUND_NULL
                    units_per_file = queue.segments.file_size_bytes // UNIT_SIZE_BYTES
                    result.next_offset = (queue_offset // units_per_file + 1) * units_per_file
                    return result
                result.walk = Walk(queue_offset, units, max_count, max_bytes, wanted)
        except NotCached as error:
            if not cached_only:
                raise
            (place,) = error.missing
            result.walk = Walk(queue_offset, b"", max_count, max_bytes, wanted, place)
            return result
        if result.walk is None and len(result.ranges) == 1:  # nearly always, and without further calls
            (log_offset, size_bytes), log = result.ranges[0], self._log
            data = (log.read_cached if cached_only else log.read)(log_offset, size_bytes)
            if data is not None and len(data) == size_bytes:
                result.chunks = [data]
                return result
        return self.load(result, cached_only=cached_only)

    def _take_run(
        self, result: GetResult, queue: ConsumeQueue, max_count: int, max_bytes: int, cached_only: bool
    ) -> bool:
        """The common case: all requested records exist, are in memory and are within the limits. False, with nothing
        changed, in other cases."""
        options, log = self._options, self._log
        max_count = min(max_count, options.transfer_count_in_memory_max)
        units = queue.units(result.next_offset, max_count, cached_only=cached_only)
        count = len(units) // UNIT_SIZE_BYTES
        if not count:
            return False
        first_log_offset, _, _ = UNIT.unpack_from(units)
        if first_log_offset < log.confirmed_offset - self._memory_bytes or first_log_offset < log.min_offset:
            return False
        sizes = sizes_struct(count).unpack(units)
        total = sum(sizes)
        if total > options.transfer_bytes_in_memory_max or total > max_bytes or min(sizes) <= 0:
            return False
        last_log_offset, last_size, _ = UNIT.unpack_from(units, len(units) - UNIT_SIZE_BYTES)
        # Records do not overlap, so their sizes add up to the whole range exactly if nothing else lies between.
        if last_log_offset + last_size - first_log_offset == total:
            result.ranges = [(first_log_offset, total)]
        else:
            result.ranges = list(zip(offsets_struct(count).unpack(units), sizes, strict=True))
        result.sizes = list(sizes)
        result.next_offset += count
        return True

    def plain_limits(self, max_count: int, *, takes_all: bool) -> tuple[int, int, int, int]:
        """Of a pull in which nothing but counts, sizes and tag codes matters, and whose records are in memory: the most
        messages, the most units to look at, the most bytes, and how far behind the log's end memory reaches."""
        options = self._options
        count = min(max_count, options.transfer_count_in_memory_max)
        unit_count = count if takes_all else self._scan_count_max(max_count)
        return count, unit_count, min(options.transfer_bytes_in_memory_max, TRANSFER_BYTES_MAX), self._memory_bytes

    def _scan_count_max(self, max_count: int) -> int:
        return max(self._options.filter_scan_bytes_max, max_count * UNIT_SIZE_BYTES) // UNIT_SIZE_BYTES

    def _walk(self, result: GetResult, walk: Walk, cached_only: bool) -> bool:
        """Goes unit by unit, as Apache does. False, with nothing changed, if the second stage needs a record whose read
        may wait."""
        options, count, size_bytes = self._options, walk.max_count, walk.max_bytes
        limits = WalkLimits(
            (min(count, options.transfer_count_in_memory_max), min(size_bytes, options.transfer_bytes_in_memory_max)),
            (min(count, options.transfer_count_on_disk_max), min(size_bytes, options.transfer_bytes_on_disk_max)),
            self._log.confirmed_offset - self._memory_bytes,
            self._log.min_offset,
        )
        accepts_properties = walk.wanted.accepts_properties
        if accepts_properties is None:
            walked: UnitWalk = UnitWalk(walk, limits)
            walked.go()
            result.ranges = walked.ranges
            result.sizes = [size for _, size in walked.ranges]
        else:
            walked = by_records = RecordWalk(self._log, walk, limits, accepts_properties, cached_only=cached_only)
            if not walked.go():
                return False
            result.chunks = by_records.records
            result.sizes = list(map(len, by_records.records))
        result.next_offset = walk.queue_offset + walked.seen
        result.suggest_slave = self._log.confirmed_offset - walked.last_log_offset > self._memory_bytes
        result.walk = None
        if not result.sizes:
            result.status = walked.status
        return True

    def load(self, result: GetResult, *, cached_only: bool = False) -> GetResult:
        """Finishes ``result``. May wait for the device, and run in any thread, unless ``cached_only``."""
        if result.is_loaded:
            return result
        if result.walk is not None and result.walk.place is not None:
            file, size_bytes, at = result.walk.place
            result.walk = replace(result.walk, units=file.pread(size_bytes, at), place=None)
        if result.walk is not None and (not self._walk(result, result.walk, cached_only) or result.is_loaded):
            return result
        chunks = self._log.read_ranges(result.ranges, cached_only=cached_only)
        if chunks is None:
            return result
        if len(chunks) == 1 and len(chunks[0]) == result.ranges[0][1]:
            result.chunks = chunks
            return result
        if [len(data) for data in chunks] != [size for _, size in result.ranges]:
            # Retention removed the file between finding the unit and the read, or a damaged unit points nowhere.
            if len(result.ranges) < len(result.sizes):  # read as one; the other records in it are whole
                starts = accumulate(result.sizes, initial=result.ranges[0][0])
                result.ranges = list(zip(starts, result.sizes, strict=False))
                return self.load(result, cached_only=cached_only)
            pairs = zip(result.ranges, chunks, strict=True)
            kept = [(found, data) for found, data in pairs if len(data) == found[1]]
            result.ranges, chunks = [found for found, _ in kept], [data for _, data in kept]
            result.sizes = [size for _, size in result.ranges]
            if not kept:
                result.status = GetStatus.MESSAGE_WAS_REMOVING
                return result
        result.chunks = chunks
        return result


def _outside(queue_offset: int, low: int, high: int) -> GetResult:
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if queue_offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if queue_offset == high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
