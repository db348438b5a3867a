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
# and ours: 48 a copy of logicsPhysicalOffset, or -1. Apache's broker changes only the former.
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
    """Index files with a newer message than this cannot be trusted after a crash."""
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    queues_log_offset: int = 0
    """A record's log offset: its consume queue unit, and those of all records before it, are on the device."""
    own_log_offset: int = 0

    @property
    def is_ours(self) -> bool:
        """Our broker wrote it, after flushing the log up to ``queues_log_offset`` and the index up to its time;
        Apache's does neither."""
        return 0 < self.queues_log_offset == self.own_log_offset

    @property
    def vouched_offset(self) -> int:
        """The log offset of the newest record that it vouches for, with all before it; 0 if for none."""
        return self.queues_log_offset if self.is_ours else 0

    @property
    def is_without_queues(self) -> bool:
        """Our broker wrote it, and no broker has flushed anything since."""
        return self.own_log_offset == _NO_QUEUES and not (self.queues_log_offset or self.queues_timestamp_ms)

    @property
    def is_blank(self) -> bool:
        """No checkpoint was ever written here: none of the log is known to be on the device."""
        return not (self.log_timestamp_ms or self.queues_timestamp_ms or self.queues_log_offset)

    def closed_offset(self, store_time_ms: Callable[[int], int | None]) -> int:
        """For a store that was closed: the log offset of its last record, if the units of that record and of all before
        it are on the device; 0 if another broker may have closed it. All of Apache's brokers set the times; those up to
        5.3.3 leave the offsets unchanged. ``store_time_ms`` gives the store time of the record at a log offset."""
        if not self.is_ours or self.log_timestamp_ms != self.queues_timestamp_ms:
            return 0
        return self.queues_log_offset if store_time_ms(self.queues_log_offset) == self.log_timestamp_ms else 0

    def without_queues(self) -> Checkpoint:
        """The same checkpoint, but it vouches for no consume queue."""
        return replace(self, queues_timestamp_ms=0, queues_log_offset=0, own_log_offset=_NO_QUEUES)

    @classmethod
    def read(cls, disk: Disk, path: str) -> Checkpoint:
        """Reads the file; all zero if it is missing or too short."""
        if not disk.is_file(path):
            return cls()
        data = disk.read_bytes(path)
        return cls(*_LAYOUT.unpack_from(data)) if len(data) >= _LAYOUT.size else cls()

    def write(self, disk: Disk, path: str) -> None:
        """On the device at return. In place, as Apache does: 56 bytes at the start of a sector are written whole or not
        at all."""
        file = disk.open(path, create_size_bytes=CHECKPOINT_SIZE_BYTES)
        data = _LAYOUT.pack(
            self.log_timestamp_ms, self.queues_timestamp_ms, self.index_timestamp_ms,
            self.master_flushed_offset, self.confirm_offset, self.queues_log_offset, self.own_log_offset,
        )  # fmt: skip
        file.pwrite(data, 0)
        file.fdatasync()
