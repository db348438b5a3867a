"""Which files queues have got since the store was opened (``queueFiles``, ours alone). Together with ``queueEnds`` it
tells, after kill -9, a queue that has lost its last file from one that never had it."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from rmqserver.store.disk.disk import Disk, File
from rmqserver.store.disk.whole_files import TEMPORARY, new_file

_FRAME = struct.Struct(">II")  # size of what follows | its CRC-32 | a value as MessagePack
_FORGOTTEN = -1


class _NotesHead(msgspec.Struct, array_like=True):
    """The first value. The log began at ``log_min_offset``. ``boot`` is the run of the operating system: notes are not
    synced, so after a power cut they count for nothing."""

    boot: str
    log_min_offset: int


class NotedFile(NamedTuple):
    """The queue has a file that begins with ``first``, and in it the unit before ``end``, of the record at
    ``log_offset``. All but the last are queue offsets."""

    first: int
    end: int
    log_offset: int


_Note = tuple[str, int, int, int, int]
"""Topic, queue id, and a NotedFile; first _FORGOTTEN: the queue is about to be deleted."""


class FileNotes:
    """Notes go to the page cache only. One that cannot be written is missing, and harms nothing else."""

    def __init__(self, path: str, disk: Disk):
        self._path = path
        self._root = path.rpartition("/")[0]
        self._disk = disk
        self._file: File | None = None
        self._size_bytes = 0
        self._files: dict[tuple[str, int], list[NotedFile]] = {}
        self.log_min_offset = -1
        """Where the log began when the first note was written; -1 if there is none."""

    def load(self) -> None:
        """Takes what a killed process noted, if everything that it wrote is still there. OSError."""
        if not self._disk.is_file(self._path):
            return
        values = _values_untrusted(self._disk.read_bytes(self._path))
        head = next(values, None)
        with contextlib.suppress(msgspec.ValidationError):
            if head is None or (found := msgspec.convert(head[0], _NotesHead)).boot != self._boot():
                return
            self.log_min_offset, self._size_bytes = found.log_min_offset, head[1]
            for value, end in values:
                self._take(msgspec.convert(value, _Note))
                self._size_bytes = end

    def _take(self, note: _Note) -> None:
        topic, queue_id, first, end, log_offset = note
        if first == _FORGOTTEN:
            self._files.pop((topic, queue_id), None)
        else:
            self._files.setdefault((topic, queue_id), []).append(NotedFile(first, end, log_offset))

    def _boot(self) -> str:
        """Of the run of the operating system: a copy of the store on the same machine has the same."""
        return self._disk.kept_id(self._root).partition(":")[0]

    def all(self) -> Iterator[tuple[str, int, NotedFile, NotedFile]]:
        """Topic, queue id, and the first and the last of the noted files of each queue."""
        for (topic, queue_id), files in self._files.items():
            yield topic, queue_id, files[0], files[-1]

    def end_of(self, topic: str, queue_id: int) -> int:
        """The queue ends there or behind that; 0 if nothing is noted of it."""
        files = self._files.get((topic, queue_id))
        return files[-1].end if files else 0

    def drop_behind(self, log_offset: int) -> None:
        """Forgets the files whose record lies behind ``log_offset``, the last of the log: the log was cut, or copied
        before the notes."""
        kept = {
            key: [file for file in files if file.log_offset <= log_offset] for key, files in self._files.items()
        }  # fmt: skip
        if kept != self._files:
            self._files = {key: files for key, files in kept.items() if files}
            self._size_bytes = 0  # the next note writes all that is left anew

    def add(self, topic: str, queue_id: int, noted: NotedFile, log_min_offset: int) -> None:
        """Notes a file that was just made."""
        if self.log_min_offset < 0:
            self.log_min_offset = log_min_offset
        self._take((topic, queue_id, *noted))
        self._append((topic, queue_id, *noted))

    def add_all(self, notes: Iterable[tuple[str, int, NotedFile]], log_min_offset: int) -> None:
        """As ``add``, of files that were there when the log began at ``log_min_offset``."""
        self.log_min_offset = log_min_offset
        for topic, queue_id, noted in notes:
            self._take((topic, queue_id, *noted))
        with contextlib.suppress(OSError):
            self._write_anew()

    def forget(self, topic: str, queue_id: int | None = None) -> None:
        """Call it before the queue, or the whole topic, is deleted."""
        for key in [key for key in self._files if key[0] == topic and queue_id in (None, key[1])]:
            del self._files[key]
            if self._size_bytes:
                self._append((*key, _FORGOTTEN, 0, 0))

    def _append(self, note: _Note) -> None:
        with contextlib.suppress(OSError):
            if not self._size_bytes:
                self._write_anew()
                return
            if self._file is None:
                self._file = self._disk.open(self._path)
            frame = _framed(note)
            self._file.pwrite(frame, self._size_bytes)
            self._size_bytes += len(frame)

    def _write_anew(self) -> None:
        """Gives the file a head, and all notes there are."""
        head = _framed(_NotesHead(self._boot(), self.log_min_offset))
        notes = [_framed((*key, *file)) for key, files in self._files.items() for file in files]
        data = b"".join((head, *notes))
        new_file(self._disk, self._path + TEMPORARY, data)
        self._disk.rename(self._path + TEMPORARY, self._path)
        self._file, self._size_bytes = self._disk.open(self._path), len(data)

    def remove(self) -> None:
        """Forgets everything, and removes the file. OSError."""
        self._file, self._size_bytes, self.log_min_offset = None, 0, -1
        self._files.clear()
        self._disk.unlink(self._path)


def _framed(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return _FRAME.pack(len(body), crc32(body)) + body


def _values_untrusted(data: bytes) -> Iterator[tuple[object, int]]:
    """Each value up to the first that is damaged, and where it ends in the file."""
    at = 0
    while at + _FRAME.size <= len(data):
        size, crc = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        body = data[at : at + size]
        if not body or len(body) < size or crc32(body) != crc:
            return
        at += size
        try:
            yield msgspec.msgpack.decode(body), at
        except msgspec.DecodeError:
            return
