"""The second stage of a filter: it asks for a message's properties, so the record has to be read before it is known
whether anybody wants it (``MessageFilter.isMatchedByCommitLog``, 5.5.0)."""

from __future__ import annotations

import struct

from rmqproto.message_filter import AcceptsCode, AcceptsProperties
from rmqproto.properties import RecordProperties
from rmqproto.record import MAGIC_V1, RECORD_SIZE_MIN_BYTES
from rmqproto.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import RECORD_SIZE_MAX_BYTES, UNIT
from rmqserver.store.results import LogRange

PORTION_RECORDS = 32
PORTION_BYTES = 256 << 10
"""Records read at a time: neighbours share a system call, and what is read in vain stays small."""

READ_BYTES_MAX = 4 << 20
"""What one pull reads at most for its second stage, not counting the record that passes. Ours: Apache bounds only the
units, and 800 units may stand for three gigabytes."""

# Of a record with IPv4 hosts: 4 magic i32 | 36 sysFlag i32 | 84 body length i32 | 88 body.
_HEAD = struct.Struct(">4xi28xi44xi")
_I32 = struct.Struct(">i")
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_HOST_V6_MORE_BYTES = 12


class RecordsAhead:
    """The records that a walk over units comes to, read in portions. Only those that the first stage takes are read.
    With ``cached_only`` nothing is read if that may wait."""

    def __init__(self, log: CommitLog, units: bytes, accepts_code: AcceptsCode | None, *, cached_only: bool):
        self._log = log
        self._units = units
        self._accepts_code = accepts_code
        self._cached_only = cached_only
        self._records: dict[int, bytes] = {}
        self._next = 0
        self._read_bytes = 0

    def is_spent(self, position: int) -> bool:
        """Whether the call has read all that it may, and the unit's record is not among it."""
        return self._read_bytes >= READ_BYTES_MAX and position >= self._next

    def record(self, position: int) -> bytes | None:
        """The record of a unit that the first stage takes; positions rise. Too short if the log no longer has it. None
        if the read may wait."""
        if position >= self._next and not self._read(position):
            return None
        return self._records[position]

    def _read(self, position: int) -> bool:
        accepts = self._accepts_code
        ranges: dict[int, LogRange] = {}
        size_bytes = 0
        for log_offset, size, tags_code in UNIT.iter_unpack(self._units[position * UNIT_SIZE_BYTES :]):
            if len(ranges) >= PORTION_RECORDS or size_bytes >= PORTION_BYTES:
                break
            if 0 < size <= RECORD_SIZE_MAX_BYTES and (accepts is None or accepts(tags_code)):
                ranges[position] = log_offset, size
                size_bytes += size
            position += 1
        records = self._log.read_ranges(list(ranges.values()), cached_only=self._cached_only)
        if records is None:
            return False
        self._records = dict(zip(ranges, records, strict=True))
        self._next = position
        self._read_bytes += size_bytes
        return True


def is_wanted_untrusted(record: bytes, accepts_properties: AcceptsProperties) -> bool:
    """Whether the second stage takes a record. Nobody wants a damaged one."""
    properties_at = _properties_at_untrusted(record)
    return properties_at is not None and accepts_properties(RecordProperties(record, properties_at))


def _properties_at_untrusted(record: bytes) -> int | None:
    """Where a record's properties begin; they reach to its end. None if its lengths do not fit."""
    size = len(record)
    if size < RECORD_SIZE_MIN_BYTES:
        return None
    magic, sys_flag, body_size = _HEAD.unpack_from(record)
    body_at = _HEAD.size
    if sys_flag & _HOSTS_V6:
        body_at += _HOST_V6_MORE_BYTES * (sys_flag & _HOSTS_V6).bit_count()
        if size < body_at:
            return None
        (body_size,) = _I32.unpack_from(record, body_at - _I32.size)
    topic_at = body_at + body_size + (1 if magic == MAGIC_V1 else 2)
    if body_size < 0 or topic_at > size:
        return None
    topic_size = record[topic_at - 1] if magic == MAGIC_V1 else record[topic_at - 2] << 8 | record[topic_at - 1]
    properties_at: int = topic_at + topic_size + 2
    if properties_at > size or properties_at + (record[properties_at - 2] << 8 | record[properties_at - 1]) != size:
        return None
    return properties_at
