"""The second stage of a filter: it asks for a message's properties, so the record has to be read before it is known
whether anybody wants it (``MessageFilter.isMatchedByCommitLog``, 5.5.0)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, repeat
from operator import add, sub

from rmqproto.message_filter import AcceptsRawProperties
from rmqproto.record import MAGIC_V1, RECORD_SIZE_MIN_BYTES
from rmqproto.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from rmqserver.store.log.commit_log import GAP_MAX_BYTES, SPAN_MAX_BYTES, CommitLog
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import UNIT
from rmqserver.store.queues.walks import UnitWalk, WalkLimits, offsets_struct, sizes_struct
from rmqserver.store.results import GetStatus, LogRange, Walk

try:
    from rmqserver.store.queues._properties import NAMES_MAX, record_values
except ImportError:  # it was installed without a C compiler
    NAMES_MAX, record_values = 0, None  # type: ignore[assignment]

IS_NATIVE = record_values is not None
"""Whether values of properties are found in C, where an ``AcceptsValues`` says which."""

PORTION_RECORDS = 32
PORTION_BYTES = 256 << 10
"""Records read at a time: neighbours share a system call, and what is read in vain stays small."""

READ_BYTES_MAX = 4 << 20
"""What one pull reads at most for its second stage, not counting the record that passes. Ours: Apache bounds only the
units, and 800 units may stand for three gigabytes."""

# Of a record with IPv4 hosts: 0 size i32 | 4 magic i32 | 36 sysFlag i32 | 84 body length i32 | 88 body.
_HEAD = struct.Struct(">ii28xi44xi")
_TOPIC_V1_AT = _HEAD.size + 1
"""With an empty body, of a topic whose length is one byte."""
_unpack_head = _HEAD.unpack_from
_I32 = struct.Struct(">i")
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_HOST_V6_MORE_BYTES = 12


class RecordWalk(UnitWalk):
    """By the tags codes and the properties of the records, which are read in portions; those that are wanted are in
    ``records``. With ``cached_only`` nothing is read if that may wait."""

    def __init__(
        self, log: CommitLog, walk: Walk, limits: WalkLimits, accepts: AcceptsRawProperties, *, cached_only: bool
    ):
        super().__init__(walk, limits)
        self.records: list[bytes] = []
        self._accepts = accepts
        self._accepts_values = walk.wanted.accepts_values
        self._log = log
        self._cached_only = cached_only
        self._read_bytes = 0

    def go(self) -> bool:
        units_size = len(self._units)
        while (at := self.seen * UNIT_SIZE_BYTES) < units_size and self._read_bytes < READ_BYTES_MAX:
            units = self._units[at : at + PORTION_RECORDS * UNIT_SIZE_BYTES]
            count = len(units) // UNIT_SIZE_BYTES
            offsets, sizes = offsets_struct(count).unpack(units), sizes_struct(count).unpack(units)
            if self.ranges and self._is_full(offsets[0], sizes[0]):
                break
            starts = self._near_starts(offsets, sizes)
            if starts is not None:
                data = self._read(offsets[0], starts[-1] + sizes[-1])
                if data is None:
                    return False
                if len(data) == starts[-1] + sizes[-1]:  # and not less, at a file's end
                    self._take_near(offsets[0], starts, sizes, data)
                    continue
            if not self._take_each(units):
                return False
        return True

    # --- a portion that is one read ----------------------------------------------------------------------------------

    def _near_starts(self, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> list[int] | None:
        """Where the records lie behind the first one in the common case: nothing is damaged, they lie near each other,
        all are to be read, and only their number may be too much. None in others."""
        limits, size_bytes = self._limits, sum(sizes)
        if self._accepts_code is not None or offsets[0] < max(limits.in_memory_from, limits.log_min):
            return None
        if size_bytes > min(PORTION_BYTES, limits.in_memory[1] - self._total) or min(sizes) < RECORD_SIZE_MIN_BYTES:
            return None
        # Records do not overlap, so they fill the space between the first and the last exactly if nothing else does.
        if offsets[-1] + sizes[-1] - offsets[0] == size_bytes:
            return list(accumulate(sizes[:-1], initial=0))
        gaps = list(map(sub, offsets[1:], map(add, offsets, sizes)))
        is_near = min(gaps) >= 0 and max(gaps) <= GAP_MAX_BYTES and offsets[-1] - offsets[0] <= SPAN_MAX_BYTES
        return [log_offset - offsets[0] for log_offset in offsets] if is_near else None

    def _read(self, log_offset: int, size: int) -> bytes | None:
        self._read_bytes += size
        return self._log.read_cached(log_offset, size) if self._cached_only else self._log.read(log_offset, size)

    def _take_near(self, log_offset: int, starts: list[int], sizes: tuple[int, ...], data: bytes) -> None:
        count_max = max(1, self._limits.in_memory[0] - len(self.ranges))
        wanted = self._wanted(data, starts, sizes)
        self.seen += len(sizes) if len(wanted) < count_max else starts.index(wanted[count_max - 1][0]) + 1
        self.last_log_offset = log_offset + starts[-1]
        self.status = GetStatus.NO_MATCHED_MESSAGE
        found = [data[at:end] for at, end in wanted[:count_max]]
        self.records += found
        self.ranges += [(log_offset + at, end - at) for at, end in wanted[:count_max]]
        self._total += sum(map(len, found))

    def _wanted(self, data: bytes, starts: list[int], sizes: tuple[int, ...]) -> list[tuple[int, int]]:
        """Start and end of the wanted records. In C, where it is built and has room for all names."""
        if record_values is None or self._accepts_values is None or len(self._accepts_values.names) > NAMES_MAX:
            return wanted_untrusted(data, starts, sizes, self._accepts)
        names, accepts = self._accepts_values
        found = zip(starts, sizes, record_values(data, starts, sizes, names), strict=True)
        return [(at, at + size) for at, size, values in found if values is not None and accepts(values)]

    # --- one by one --------------------------------------------------------------------------------------------------

    def _take_each(self, units: bytes) -> bool:
        """Goes unit by unit, as Apache does. Only what the first stage takes is read. False, with nothing changed, if
        that may wait."""
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
            if self.ranges and self._is_full(log_offset, size):
                break
            self.seen += 1
            self.last_log_offset = log_offset
            refused = refused or self._second_stage(log_offset, size, next(records))
            self.status = refused or self.status
        return True

    def _second_stage(self, log_offset: int, size: int, record: bytes) -> GetStatus | None:
        """Why the record is not taken; None if it is."""
        if len(record) < size:
            return GetStatus.MESSAGE_WAS_REMOVING
        if not is_wanted_untrusted(record, self._accepts):
            return GetStatus.NO_MATCHED_MESSAGE
        self.ranges.append((log_offset, size))
        self.records.append(record)
        self._total += size
        return None


def is_wanted_untrusted(record: bytes, accepts_properties: AcceptsRawProperties) -> bool:
    """Whether the second stage takes a record. Nobody wants a damaged one."""
    size = len(record)
    return size >= RECORD_SIZE_MIN_BYTES and bool(wanted_untrusted(record, (0,), (size,), accepts_properties))


def wanted_untrusted(
    data: bytes, starts: Sequence[int], sizes: Sequence[int], accepts: AcceptsRawProperties
) -> list[tuple[int, int]]:
    """Start and end of those of the records in ``data`` that the second stage takes. None is smaller than
    RECORD_SIZE_MIN_BYTES."""
    wanted: list[tuple[int, int]] = []
    heads = map(_unpack_head, repeat(data), starts)
    for at, size, (record_size, magic, sys_flag, body_size) in zip(starts, sizes, heads, strict=False):
        if magic == MAGIC_V1 and not sys_flag & _HOSTS_V6:  # as nearly all
            if not 0 <= body_size <= size - RECORD_SIZE_MIN_BYTES:
                continue
            start = at + _TOPIC_V1_AT + body_size
            start += data[start - 1] + 2
        else:
            start = _unusual_start_untrusted(data, at, at + size)
        end = at + record_size
        if record_size == size and start <= end and accepts(data[start:end]):
            wanted.append((at, end))
    return wanted


def _unusual_start_untrusted(data: bytes, at: int, end: int) -> int:
    """Where the properties of a record begin with a long topic or IPv6 hosts; behind its end if its lengths do not
    fit."""
    _, magic, sys_flag, _ = _unpack_head(data, at)
    body_at = at + _HEAD.size + _HOST_V6_MORE_BYTES * (sys_flag & _HOSTS_V6).bit_count()
    if end < body_at:
        return end + 1
    (body_size,) = _I32.unpack_from(data, body_at - _I32.size)
    topic_at: int = body_at + body_size + (1 if magic == MAGIC_V1 else 2)
    if body_size < 0 or topic_at > end:
        return end + 1
    return topic_at + (data[topic_at - 1] if magic == MAGIC_V1 else data[topic_at - 2] << 8 | data[topic_at - 1]) + 2
