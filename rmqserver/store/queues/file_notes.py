"""Which files queues have got since the store was opened (``queueFiles``, ours alone). Together with ``queueEnds`` it
tells, after a crash, a queue that has lost its last file from one that never had it."""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from rmqserver.store.disk.disk import Disk, File
from rmqserver.store.disk.whole_files import TEMPORARY, PackedFile, new_file
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import ConsumeQueue

_FRAME = struct.Struct(">II")  # size of what follows | its CRC-32 | a value as MessagePack
_FORGOTTEN = -1


class _NotesHead(msgspec.Struct, array_like=True):
    """The first value. The log began at ``log_min_offset``. ``boot`` is the run of the operating system."""

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
    """Notes go to the page cache, and to the device before the checkpoint that vouches for their records: after a power
    cut, only those count. One that cannot be written is missing, and harms nothing else."""

    def __init__(self, path: str, disk: Disk):
        self._path = path
        self._root = path.rpartition("/")[0]
        self._disk = disk
        self._file: File | None = None
        self._size_bytes = 0
        self._is_synced = True
        self._files: dict[tuple[str, int], list[NotedFile]] = {}
        self.log_min_offset = -1
        """Where the log began when the first note was written; -1 if there is none."""

    def load(self, vouched_offset: int) -> None:
        """Takes what a killed process noted, after a power cut only what the checkpoint vouches for: the files of
        records up to ``vouched_offset``. OSError."""
        if not self._disk.is_file(self._path):
            return
        values = _values_untrusted(self._disk.read_bytes(self._path))
        head, boot = next(values, None), ""
        self._is_synced = False
        with contextlib.suppress(msgspec.ValidationError):
            if head is not None:
                found = msgspec.convert(head[0], _NotesHead)
                boot, self.log_min_offset, self._size_bytes = found.boot, found.log_min_offset, head[1]
            for value, end in values:
                self._take(msgspec.convert(value, _Note))
                self._size_bytes = end
        if boot != self._boot():
            self.drop_behind(vouched_offset or -1)
            self._size_bytes = 0

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
            self._size_bytes, self._is_synced = 0, False  # the next note or sync writes all that is left anew

    def add(self, topic: str, queue_id: int, noted: NotedFile, log_min_offset: int) -> None:
        """Notes a file that was just made."""
        if self.log_min_offset < 0:
            self.log_min_offset = log_min_offset
        self._take((topic, queue_id, *noted))
        self._append((topic, queue_id, *noted))

    def add_older(self, notes: Iterable[tuple[str, int, NotedFile]], log_min_offset: int) -> None:
        """As ``add``, of files that were there before all noted ones, when the log began at ``log_min_offset``."""
        self.log_min_offset = log_min_offset
        for topic, queue_id, noted in notes:
            self._files.setdefault((topic, queue_id), []).insert(0, noted)
        self._is_synced = False
        with contextlib.suppress(OSError):
            self._write_anew()

    def forget(self, topic: str, queue_id: int | None = None) -> None:
        """Call it before the queue, or the whole topic, is deleted. OSError."""
        keys = [key for key in self._files if key[0] == topic and queue_id in (None, key[1])]
        for key in keys:
            del self._files[key]
            if self._size_bytes:
                self._append((*key, _FORGOTTEN, 0, 0))
        if keys and not self._size_bytes:  # the disk is full, and what is there tells of the queues
            self._disk.unlink(self._path)
            self._disk.sync_directory(self._root)

    def prepare(self) -> Callable[[], None]:
        """Returns work for any thread: it brings every note that there is now to the device. OSError."""
        if not self._is_synced:
            with contextlib.suppress(OSError):
                file = self._opened()
                self._is_synced = True
                return functools.partial(self._sync, file)
        return lambda: None

    def _sync(self, file: File) -> None:
        try:
            file.fdatasync()
            self._disk.sync_directory(self._root)
        except OSError:
            self._size_bytes, self._is_synced = 0, False  # whatever comes next writes all into a new file
            raise

    def _opened(self) -> File:
        if not self._size_bytes:
            self._write_anew()
        if self._file is None:
            self._file = self._disk.open(self._path)
        return self._file

    def _append(self, note: _Note) -> None:
        self._is_synced = False
        try:
            if not self._size_bytes:
                self._write_anew()
                return
            frame = _framed(note)
            self._opened().pwrite(frame, self._size_bytes)
            self._size_bytes += len(frame)
        except OSError:
            self._size_bytes = 0  # the next note or sync writes all anew

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
        self._file, self._size_bytes, self._is_synced, self.log_min_offset = None, 0, True, -1
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


Ends = dict[str, dict[int, tuple[int, int]]]
"""By topic and queue id: the first queue offset of the queue's first file, and the one behind its last message."""


class SavedEnds(msgspec.Struct, array_like=True):
    """The log began at ``log_min_offset``; ``log_offset`` is that of its last record. The queues in ``short`` were
    found to end too early: the next start opens them."""

    log_min_offset: int
    log_offset: int
    ends: Ends
    short: list[tuple[str, int]]


FILE = PackedFile(b"RMQE", 1, SavedEnds)


class KnownEnds:
    """Where the queues ended when the store was closed (``queueEnds``, a file of ours alone). Nothing else tells a
    queue that has lost its files from one that never had any: its next message would get a queue offset that an older
    one has. A store without the file is a sound one.

    No queue ends earlier, unless its topic is deleted or the log is cut. The file is removed before that, so it also
    counts after a kill."""

    def __init__(self, path: str, notes_path: str, disk: Disk):
        self._notes = FileNotes(notes_path, disk)
        self._path = path
        self._disk = disk
        self._ends: Ends = {}
        self._short: dict[tuple[str, int], None] = {}
        self._is_there = self._read_only = False
        self.log_min_offset = -1
        """Where the log began. If it still does, no first file of a queue was removed since."""
        self.log_offset = 0
        """That of a record: the ends cover this record and all before it. 0 if no end is known."""

    def load(self, log_offset_max: int, *, is_closed: bool, has_notes: bool, read_only: bool) -> None:
        """``log_offset_max`` is the newest record whose unit is known to be in a file; with ``is_closed`` the store was
        closed behind it. A file that says other things is of another time of the log, and is removed. ``has_notes``:
        one of our brokers was killed, and what it noted of new files counts. OSError."""
        self._read_only = read_only
        self._is_there = self._disk.is_file(self._path)
        if has_notes:
            self._notes.load(log_offset_max)
        elif not read_only:
            self._notes.remove()
        saved = FILE.read(self._disk, self._path)
        low = log_offset_max if is_closed else 1
        if saved is None or not 0 < low <= saved.log_offset <= log_offset_max:
            self._remove_file()
            self.log_min_offset = self._notes.log_min_offset
            return
        self._ends, self.log_min_offset, self.log_offset = saved.ends, saved.log_min_offset, saved.log_offset
        self._short = dict.fromkeys(saved.short)

    def of(self, topic: str, queue_id: int) -> int:
        """The queue ends there or behind that; 0 if nothing is known."""
        queues = self._ends.get(topic)
        end = queues[queue_id][1] if queues is not None and queue_id in queues else 0
        return max(end, self._notes.end_of(topic, queue_id))

    def all(self) -> Iterator[tuple[str, int, int, int]]:
        """Topic, queue id, first queue offset of the first file, and end of each queue."""
        for topic, queue_id, first, last in self._notes.all():
            if queue_id not in self._ends.get(topic, ()):
                yield topic, queue_id, first.first, last.end
        for topic, queues in self._ends.items():
            for queue_id, (first_offset, _) in queues.items():
                yield topic, queue_id, first_offset, self.of(topic, queue_id)

    def note(self, queue: ConsumeQueue, position: int, log_min_offset: int) -> None:
        """The queue has a file for the unit at ``position``, a queue offset, and the unit is in it."""
        if position < self.of(queue.topic, queue.queue_id):
            return
        unit = queue.unit(position)
        noted = NotedFile(
            queue.segments.min_offset // UNIT_SIZE_BYTES, position + 1, unit[0] if unit is not None else 0
        )
        self._notes.add(queue.topic, queue.queue_id, noted, log_min_offset)

    def drop_behind(self, log_offset: int) -> None:
        """Forgets the noted files of records behind ``log_offset``, the last of the log."""
        self._notes.drop_behind(log_offset)

    @property
    def short(self) -> Collection[tuple[str, int]]:
        """The queues that were found to end too early when the store was last open."""
        return self._short

    def note_short(self, topic: str, queue_id: int) -> None:
        self._short[topic, queue_id] = None

    def forget(self, topic: str, queue_id: int | None = None) -> None:
        """Call it before the queue, or the whole topic, is deleted. OSError."""
        queues = self._ends.get(topic, {})
        for each in list(queues) if queue_id is None else [queue_id]:
            queues.pop(each, None)
            self._short.pop((topic, each), None)
        self._notes.forget(topic, queue_id)
        self.keep_as_notes()

    def keep_as_notes(self) -> None:
        """From here on, a power cut before the next checkpoint voids what is known. OSError."""
        if self._is_there and not self._read_only:
            known = [
                (topic, queue_id, NotedFile(first, end, self.log_offset))
                for topic, queues in self._ends.items()
                for queue_id, (first, end) in queues.items()
            ]
            self._notes.add_older(known, self.log_min_offset)
            self._remove_file()

    def prepare(self) -> Callable[[], None]:
        """See ``FileNotes.prepare``."""
        return self._notes.prepare()

    def forget_all(self) -> None:
        """Call it before the log is cut. OSError."""
        self._remove_file()
        if not self._read_only:
            self._notes.remove()
        self._ends, self._short, self.log_min_offset, self.log_offset = {}, {}, -1, 0

    def _remove_file(self) -> None:
        if self._is_there and not self._read_only:
            self._disk.unlink(self._path)
            self._disk.sync_directory(self._path.rpartition("/")[0])
            self._is_there = False

    def save(self, log_min_offset: int, log_offset: int, opened: Iterable[ConsumeQueue]) -> None:
        """Writes the file for a store that is about to be closed: its log begins at ``log_min_offset``, and the last
        record is at ``log_offset``. ``opened`` are the queues that were used. Of others, what was known is true still:
        retention opens those of which it removes files. OSError."""
        for topic, queue_id, first, end in list(self.all()):
            self._ends.setdefault(topic, {})[queue_id] = first, end
        for queue in opened:
            if queue.segments.bases:
                first = queue.segments.min_offset // UNIT_SIZE_BYTES
                self._ends.setdefault(queue.topic, {})[queue.queue_id] = first, queue.next_offset
            self._short.pop((queue.topic, queue.queue_id), None)
        FILE.write(self._disk, self._path, SavedEnds(log_min_offset, log_offset, self._ends, list(self._short)))
        self._is_there = True
        self._notes.remove()
