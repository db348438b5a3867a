"""A model of a broker's commit log and the store around it, as the product's replication sees them. A record is 24
bytes with a checksum, the log is one file, and nothing expires. Like the real recovery, a start takes the end of the
last complete record as the end of the log. The real store's crash images are tested in ``tests/crash``."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import Enum, auto
from random import Random
from typing import Any

from rmqproto.errors import ProtocolError, StorageError
from rmqserver.store.append.confirmation import OFFSET_MAX
from rmqserver.store.followers import Followers
from rmqserver.store.options import FlushMode
from rmqserver.store.running_flags import NOT_WRITEABLE, RunningFlags

# +-----------------------------+----------------------+--------------------------+------------------------+
# | u32 CRC-32 of what follows  | u32 number of sender | u64 log offset of record | u64 number of message  |
# +-----------------------------+----------------------+--------------------------+------------------------+
_RECORD = struct.Struct(">IIQQ")
RECORD_BYTES = _RECORD.size
FILE_BYTES = 1 << 20
FLUSH_S = 0.003
ASYNC_FLUSH_S = 0.5


def record(log_offset: int, message: int) -> bytes:
    body = _RECORD.pack(0, 0, log_offset, message)[4:]
    return zlib.crc32(body).to_bytes(4, "big") + body


def message_at(data: bytes | bytearray, log_offset: int) -> int | None:
    """The message whose record begins there; None if there is no complete one."""
    found = bytes(data[log_offset : log_offset + RECORD_BYTES])
    if len(found) < RECORD_BYTES or zlib.crc32(found[4:]) != int.from_bytes(found[:4], "big"):
        return None
    _, _, place, message = _RECORD.unpack(found)
    return message if place == log_offset else None


def messages(data: bytes | bytearray, start: int, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Log offset and message of each record from ``start`` on, up to the first place without one, or to ``end``."""
    at = start
    while (end is None or at + RECORD_BYTES <= end) and (found := message_at(data, at)) is not None:
        yield at, found
        at += RECORD_BYTES


class Room(Enum):
    ENOUGH = auto()
    LITTLE = auto()
    """Messages are refused before a write fails."""
    NONE = auto()
    """Writes and flushes fail."""


class LogOnDisk:
    """The log as it outlives processes. Up to ``synced_bytes`` it also outlives power cuts."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced_bytes = 0
        self.was_closed = True
        self.room = Room.ENOUGH

    def cut_power(self, random: Random) -> list[int]:
        """Keeps some first part of the data that was not synced, or none; returns the messages that are lost."""
        kept = random.choice([self.synced_bytes, random.randint(self.synced_bytes, len(self.data))])
        lost = [found for _, found in messages(self.data, kept - kept % RECORD_BYTES)]
        del self.data[kept:]
        return lost

    def recover(self) -> None:
        self.cut(max((at + RECORD_BYTES for at, _ in messages(self.data, 0)), default=0))

    def free(self) -> None:
        self.room = Room.ENOUGH

    def cut(self, log_offset: int) -> None:
        del self.data[log_offset:]
        self.synced_bytes = len(self.data)


class _Segments:
    """A ``SegmentedFile`` of one file."""

    file_size_bytes = FILE_BYTES
    min_offset = 0

    def __init__(self, disk: LogOnDisk):
        self.disk = disk

    @property
    def bases(self) -> list[int]:
        return [0] if self.disk.data else []

    def base_of(self, log_offset: int) -> int:
        return 0


class _Log:
    """``CommitLog``."""

    min_offset = 0
    file_size_bytes = FILE_BYTES

    def __init__(self, disk: LogOnDisk):
        self.segments = _Segments(disk)
        self.written_offset = self.confirmed_offset = len(disk.data)

    def read_cached(self, log_offset: int, size: int) -> bytes:
        return bytes(self.segments.disk.data[log_offset : log_offset + size])


class _Directory:
    commit_log = consume_queues = "/"


class _Options:
    def __init__(self, flush_mode: FlushMode):
        self.flush_mode = flush_mode


class OpenStore:
    """``MessageStore``, ``Appender`` and ``Flusher`` of an open log. ``on_grown`` is called when the log is longer, or
    readers see more; ``on_flushed`` when a flush has ended."""

    directory = _Directory()

    def __init__(
        self,
        product: Any,
        machine: Any,
        disk: LogOnDisk,
        flush_mode: FlushMode,
        on_grown: Callable[[], None],
        on_flushed: Callable[[], None],
        *,
        waits_for_copies: bool = True,
    ):
        """With ``waits_for_copies`` readers see only what the in-sync brokers have."""
        self.waits_for_copies = waits_for_copies
        self.log_on_disk = disk
        self.flags = RunningFlags()
        self.log = _Log(disk)
        self.disk = machine.disk
        self.options = _Options(flush_mode)
        self.flushed_offset = disk.synced_bytes
        self.last_store_timestamp_ms = 0
        self._product = product
        self._machine = machine
        self._on_flushed = on_flushed
        self._is_flush_due = False
        self._is_closed = False
        self._confirmation = product.confirmation.Confirmation(
            self.log, Followers(()), self._request_flush, lambda arrivals: on_grown(),
            waits_for_flush=flush_mode is FlushMode.SYNC, waits_for_copies=waits_for_copies, on_written=on_grown,
        )  # fmt: skip
        self._confirmation.last_record_offset = max(len(disk.data) - RECORD_BYTES, 0)
        self._product_round: list[bytes] = []

    @property
    def written_offset(self) -> int:
        return self.log.written_offset

    @property
    def confirmed_offset(self) -> int:
        return self.log.confirmed_offset

    @property
    def end_offset(self) -> int:
        return self.log.written_offset

    @property
    def last_record_offset(self) -> int:
        last: int = self._confirmation.last_record_offset
        return last

    def get_record(self, log_offset: int) -> bytes | None:
        data = self.log_on_disk.data[: self.confirmed_offset]
        is_there = message_at(data, log_offset) is not None
        return bytes(data[log_offset : log_offset + RECORD_BYTES]) if is_there else None

    def max_offset(self, topic: str, queue_id: int) -> int:
        """All messages are in one queue."""
        return self.confirmed_offset // RECORD_BYTES

    def copied(self, log_offset: int) -> None:
        self._confirmation.copied(log_offset)

    # --- a master appends --------------------------------------------------------------------------------------------

    def append(self, message: int) -> int:
        log_offset = self.log.written_offset + sum(map(len, self._product_round))
        self._product_round.append(record(log_offset, message))
        return log_offset

    def commit(self) -> None:
        if self._product_round:
            data = b"".join(self._product_round)
            self._product_round.clear()
            if self.log_on_disk.room is Room.NONE:
                raise self._failed("write")
            self.copy(self.log.written_offset, data)
            self._confirm_written(len(data))

    def _confirm_written(self, size: int) -> None:
        end = self.log.written_offset
        self._confirmation.written(self._product.confirmation.Round(end, end - RECORD_BYTES, [], []))
        if self.options.flush_mode is not FlushMode.SYNC:
            self._request_flush()

    # --- a slave copies ----------------------------------------------------------------------------------------------

    def lack_of_room(self) -> str:
        return "" if self.log_on_disk.room is Room.ENOUGH else "the disk is nearly full"

    def log_copy(self) -> _Copy:
        return _Copy(self)

    def copy(self, log_offset: int, data: bytes) -> None:
        assert log_offset == self.log.written_offset == len(self.log_on_disk.data)
        self.log_on_disk.data += data
        self.log.written_offset += len(data)
        self._request_flush()

    def show(self, end: int) -> None:
        self._confirmation.written(self._product.confirmation.Round(end, end - RECORD_BYTES, [], []))

    # --- the device --------------------------------------------------------------------------------------------------

    def _failed(self, doing: str) -> StorageError:
        error = StorageError(f"cannot {doing}: no space left on device")
        error.lacks_room = True
        self.flags.fail(NOT_WRITEABLE, error)
        return error

    def why_not_writeable(self) -> str:
        return self.flags.reason or self.lack_of_room()

    def _request_flush(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            delay_s = FLUSH_S if self.options.flush_mode is FlushMode.SYNC else ASYNC_FLUSH_S
            self._machine.after(delay_s * (0.5 + self._machine.world.random.random()), self.flush)

    def flush(self) -> None:
        if not self._is_flush_due or self._is_closed:
            return
        self._is_flush_due = False
        disk = self.log_on_disk
        if self.flags.has_write_failed or disk.room is Room.NONE:
            self._failed("flush")
            self._on_flushed()
            return
        self.flushed_offset = disk.synced_bytes = len(disk.data)
        self._confirmation.flushed(self.flushed_offset)
        self._on_flushed()

    def close(self) -> None:
        self.flush()
        self._is_closed = True


class _Copy:
    """A ``LogCopy`` of these records."""

    def __init__(self, store: OpenStore):
        self._store = store
        self._shown = store.end_offset
        self._visible_max = store.end_offset if store.waits_for_copies else OFFSET_MAX

    @property
    def end_offset(self) -> int:
        return self._store.end_offset

    next_offset = end_offset

    @property
    def behind_bytes(self) -> int:
        return max(min(self.end_offset, self._visible_max) - self._shown, 0)

    def append(self, log_offset: int, data: bytes | memoryview) -> None:
        if self._store.log_on_disk.room is Room.NONE:
            raise StorageError("cannot write: no space left on device")
        if log_offset != self.end_offset:
            raise ProtocolError(f"bytes at log offset {log_offset} do not go on where the log ends, {self.end_offset}")
        self._store.copy(log_offset, bytes(data))

    def master_ends_at(self, log_offset: int) -> None:
        pass

    def settle(self) -> None:
        pass

    def show_until(self, log_offset: int) -> None:
        self._visible_max = log_offset

    def dispatch_some(self) -> bool:
        end = min(self.end_offset, self._visible_max)
        end -= end % RECORD_BYTES
        if end <= self._shown:
            return False
        self._shown = end
        self._store.show(end)
        return True
