"""The ``checkpoint`` file: how far everything derived from the log is known to be on the device."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from rmqserver.store.disk.disk import Disk

CHECKPOINT_SIZE_BYTES = 4096

# StoreCheckpoint (5.5.0), big-endian, the rest zero:
#  0 physicMsgTimestamp i64 | 8 logicsMsgTimestamp i64 | 16 indexMsgTimestamp i64
# 24 masterFlushedOffset i64 | 32 confirmPhyOffset i64 | 40 logicsPhysicalOffset i64
# and ours: 48 a copy of logicsPhysicalOffset, or -1. Apache's broker moves the one and leaves the other.
_LAYOUT = struct.Struct(">7q")
FIELDS_SIZE_BYTES = _LAYOUT.size

_NO_QUEUES = -1


@dataclass(slots=True)
class Checkpoint:
    """Times are store timestamps of messages. 0: nothing is known."""

    log_timestamp_ms: int = 0
    """Newest message that was flushed to the log."""
    queues_timestamp_ms: int = 0
    """Newest message whose consume queue unit was flushed."""
    index_timestamp_ms: int = 0
    """Index files whose newest message is younger than this are not to be trusted after a crash."""
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    queues_log_offset: int = 0
    """A record's log offset: its consume queue unit, and those of all records before it, are on the device."""
    own_log_offset: int = 0

    @property
    def is_ours(self) -> bool:
        """We wrote it, after flushing the log itself up to ``queues_log_offset`` and the index up to its time; Apache
        does neither."""
        return 0 < self.queues_log_offset == self.own_log_offset

    @property
    def is_without_queues(self) -> bool:
        """We wrote it, and no broker has flushed anything since."""
        return self.own_log_offset == _NO_QUEUES and not (self.queues_log_offset or self.queues_timestamp_ms)

    @property
    def is_blank(self) -> bool:
        """No checkpoint was ever written here: nothing says that any of the log came to the device."""
        return not (self.log_timestamp_ms or self.queues_timestamp_ms or self.queues_log_offset)

    def closed_offset(self, store_time_ms: Callable[[int], int | None]) -> int:
        """Of a store that was closed: where the last record of its log starts, whose unit and those of all before it
        are on the device; 0 where another broker may have closed it. All of Apache's set the times; those of 5.3.3 and
        older leave the offsets as they were. ``store_time_ms`` is asked for that of the record at a log offset."""
        if not self.is_ours or self.log_timestamp_ms != self.queues_timestamp_ms:
            return 0
        return self.queues_log_offset if store_time_ms(self.queues_log_offset) == self.log_timestamp_ms else 0

    def without_queues(self) -> Checkpoint:
        """The same, but it vouches for no consume queue."""
        return replace(self, queues_timestamp_ms=0, queues_log_offset=0, own_log_offset=_NO_QUEUES)

    @classmethod
    def read(cls, disk: Disk, path: str) -> Checkpoint:
        """All zero if the file is missing or too short."""
        if not disk.is_file(path):
            return cls()
        data = disk.read_bytes(path)
        return cls(*_LAYOUT.unpack_from(data)) if len(data) >= _LAYOUT.size else cls()

    def write(self, disk: Disk, path: str) -> None:
        """On the device at return. In place, as Apache does: 56 bytes at the start of a sector are written whole or
        not at all."""
        file = disk.open(path, create_size_bytes=CHECKPOINT_SIZE_BYTES)
        data = _LAYOUT.pack(
            self.log_timestamp_ms, self.queues_timestamp_ms, self.index_timestamp_ms,
            self.master_flushed_offset, self.confirm_offset, self.queues_log_offset, self.own_log_offset,
        )  # fmt: skip
        file.pwrite(data, 0)
        file.fdatasync()
