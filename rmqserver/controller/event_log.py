"""Keeps a controller's state as a log of events. Each is on the device before it is answered, and a grown log is
replaced by one that begins with a snapshot. The format is ours: Apache's controllers use the files of DLedger or JRaft.

Each record is synced before the next is written, so a crash can tear only the last one. A bad record in the middle is
damage, and nothing after it is cut off.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import zlib
from collections.abc import Callable, Iterable

import msgspec
import trio

from rmqproto.errors import StorageError
from rmqserver.controller.controller_state import BrokerSets, ControllerEvent, StateSnapshot, apply_all
from rmqserver.controller.controller_store import ControllerName, Kept
from rmqserver.store.disk.disk import NO_ROOM, Disk, File, make_directory, storage_error

log = logging.getLogger(__name__)

FILE_NAME = "controller.log"
LOCK_NAME = "lock"
SNAPSHOT_AFTER_RECORDS = 1000

# The file is a sequence of records; the first holds a snapshot:
# +-------------------+-----------------------------+----------------------------+----------------------------------+
# | u32 size of body  | u32 CRC-32 of number, body  | u64 number, one more       | body: JSON, a list of the events |
# |                   |                             | than the record before     | of one decision, tagged by type  |
# +-------------------+-----------------------------+----------------------------+----------------------------------+
_HEAD = struct.Struct(">IIQ")
_NUMBER = struct.Struct(">Q")

_BODY = msgspec.json.Decoder(list[ControllerEvent])


class EventLog:
    """A ``ControllerStore`` in its own directory, for a single controller, which always leads. After a StorageError of
    ``append`` the state of the device is unknown: never append again."""

    is_leading = True
    leader: ControllerName | None = None

    def __init__(self, directory: str, disk: Disk, snapshot_after_records: int = SNAPSHOT_AFTER_RECORDS):
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"
        self._disk = disk
        self._snapshot_after_records = snapshot_after_records
        self._lock: File | None = None
        self._file: File | None = None
        self._end = 0
        self._next_number = 1
        self._record_count = 0

    def open(self) -> BrokerSets:
        """Creates missing files and returns the state. Raises StorageError if the file is damaged, or another process
        holds the directory."""
        try:
            make_directory(self._disk, self._directory)
            self._lock = self._disk.lock(f"{self._directory}/{LOCK_NAME}")
            self._disk.unlink(f"{self._path}.new")
            if not self._disk.is_file(self._path):
                self._begin_anew(self._snapshot({}))
                return {}
            self._file = self._disk.open(self._path)
            # A process that was killed may have written, or renamed the file, and not synced it.
            self._file.fdatasync()
            self._disk.sync_directory(self._directory)
            return self._replayed(self._file)
        except BlockingIOError as error:
            raise StorageError(
                f"{self._directory}: held by another process", hint="another controller keeps its state there"
            ) from error
        except OSError as error:
            raise storage_error(error, "cannot open the controller's log", self._path) from error

    async def run(self, me: ControllerName, lead: Callable[[BrokerSets], None], follow: Callable[[], None]) -> None:
        """Does nothing: the controller has led since ``open``."""
        await trio.sleep_forever()

    def append(self, events: Iterable[ControllerEvent], after: BrokerSets, kept: Kept) -> None:
        """On return the events are on the device, or ``kept`` has got a StorageError."""
        assert self._file is not None
        record = _record(self._next_number, events)
        try:
            self._file.pwrite(record, self._end)
            self._file.fdatasync()
            self._end += len(record)
            self._next_number += 1
            self._record_count += 1
            if self._record_count % self._snapshot_after_records == 0:
                self._shorten(after)
        except OSError as error:
            kept(storage_error(error, "cannot write the controller's log", self._path))
        else:
            kept(None)

    def close(self) -> None:
        for file in (self._file, self._lock):
            if file is not None:
                file.close()
        self._file = self._lock = None

    def _shorten(self, sets: BrokerSets) -> None:
        """If there is no room for a new file, the log goes on as it is: it has the events already. The next try is as
        many records later."""
        try:
            new = self._snapshot(sets)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            log.warning("event=controller-log-not-shortened path=%s reason=%r", self._path, error.strerror)
        else:
            self._begin_anew(new)

    def _snapshot(self, sets: BrokerSets) -> File:
        """A new file that holds the state."""
        new = self._disk.open(f"{self._path}.new", create_size_bytes=0)
        new.truncate(0)  # it may have been tried before
        new.pwrite(_record(self._next_number, [StateSnapshot(tuple(sets.values()))]), 0)
        new.fdatasync()
        return new

    def _begin_anew(self, new: File) -> None:
        """Replaces the file atomically: both files hold the same state, and nothing is appended to the new one before
        its rename is on the device."""
        self._disk.rename(f"{self._path}.new", self._path)
        self._disk.sync_directory(self._directory)
        if self._file is not None:
            self._file.close()
        self._file = new
        self._end = new.size()
        self._next_number += 1
        self._record_count = 0

    def _replayed(self, file: File) -> BrokerSets:
        data = file.pread(file.size(), 0)
        sets: BrokerSets = {}
        while (found := _read(data, self._end)) is not None:
            number, events, end = found
            if self._end and number != self._next_number:
                break
            if not self._end and not isinstance(next(iter(events), None), StateSnapshot):
                raise self._damage("no snapshot")
            sets = apply_all(sets, events)
            self._end, self._next_number = end, number + 1
            self._record_count += 1
        if not self._end:
            raise self._damage("no record")
        self._cut_off(file, data)
        return sets

    def _cut_off(self, file: File, data: bytes) -> None:
        """Cuts off what a crash has left of a record that was never answered."""
        if self._end == len(data):
            return
        for at in range(self._end + 1, len(data)):
            if (later := _read(data, at)) is not None and later[0] >= self._next_number:
                raise self._damage(f"a bad record, and a good one behind it at {at}")
        log.warning("event=controller-log-cut path=%s at=%d bytes=%d", self._path, self._end, len(data) - self._end)
        file.truncate(self._end)
        file.fdatasync()

    def _damage(self, what: str) -> StorageError:
        return StorageError(
            f"{self._path} at {self._end}: {what}",
            hint="take the file from a copy; or move it away, and delete the brokers' brokerIdentity before they start",
        )


def _record(number: int, events: Iterable[ControllerEvent]) -> bytes:
    body = msgspec.json.encode(list(events))
    checked = _NUMBER.pack(number) + body
    return _HEAD.pack(len(body), zlib.crc32(checked), number) + body


def _read(data: bytes, at: int) -> tuple[int, list[ControllerEvent], int] | None:
    """Number, events and end of the record at that position; None if there is no good one."""
    if at + _HEAD.size > len(data):
        return None
    size, crc, number = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + size
    if not size or end > len(data) or zlib.crc32(data[at + _HEAD.size - _NUMBER.size : end]) != crc:
        return None
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        return number, _BODY.decode(data[at + _HEAD.size : end]), end
    return None
