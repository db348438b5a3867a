"""A directory of equally sized, consecutive files that together are one endless stream of bytes: commit logs, consume
queues, timer logs (``MappedFileQueue``, 5.5.0). A file's name is the stream offset of its first byte, 20 digits."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable
from functools import partial
from itertools import islice
from threading import Lock

from rmqproto.errors import StorageError
from rmqserver.store.disk.cached_reads import cached_only as in_memory_only
from rmqserver.store.disk.disk import Disk, File

NAME_DIGITS = 20
CLEAR_CHUNK_BYTES_MIN, CLEAR_CHUNK_BYTES_MAX = 4096, 1 << 20
"""Bytes read at a time, doubling each time: behind the end of most files lie the rest of a page and a hole."""


QUEUES_ANEW = "Consume queues are made again from the log by a start without the directory consumequeue/, but only all"
"""For hints. That a single queue is missing, a start notices only by a valid ``queueEnds`` (``KnownEnds``)."""


class FileCache:
    """Open files by path; the least recently used is dropped first. Safe from any thread: a dropped file stays open for
    readers that still hold it."""

    def __init__(self, disk: Disk, open_files_max: int, *, read_only: bool = False):
        self._disk = disk
        self._max = open_files_max
        self._read_only = read_only
        self._files: OrderedDict[str, File] = OrderedDict()
        self._drop_count = 0
        self._lock = Lock()

    def open(self, path: str, create_size_bytes: int | None = None) -> File:
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
                return file
            drop_count = self._drop_count
        # Not under the lock: a slow device must not stop the other threads.
        file = self._disk.open(path, create_size_bytes=create_size_bytes, read_only=self._read_only)
        with self._lock:
            if path in self._files:  # another thread opened it meanwhile
                return self._files[path]
            if drop_count == self._drop_count:  # else it may be a removed file, whose name a new one gets
                self._files[path] = file
                if len(self._files) > self._max:
                    self._files.popitem(last=False)
        return file

    def drop(self, path: str) -> None:
        with self._lock:
            self._drop_count += 1
            self._files.pop(path, None)

    def clear(self) -> None:
        with self._lock:
            self._drop_count += 1
            self._files.clear()


class SegmentedFile:
    """The stream of one directory. ``bases`` are the first offsets of its files, ascending; a directory that does not
    exist is an empty stream and is made with its first file."""

    __slots__ = ("_cache", "_disk", "bases", "directory", "file_size_bytes")

    def __init__(self, directory: str, file_size_bytes: int, disk: Disk, cache: FileCache):
        self.directory = directory
        self.file_size_bytes = file_size_bytes
        self._disk = disk
        self._cache = cache
        self.bases: list[int] = []

    def load(self, *, read_only: bool = False, is_derived: bool = False) -> None:
        """Finds the files. Removes an empty last file (left by a crash while it was made), as Apache does. In a stream
        that is derived from the log, removes everything from the first empty file on: the replay rebuilds it.
        StorageError if a file has another size, or one is missing in between."""
        names = [name for name in self._disk.listdir(self.directory) if is_stream_name(name)]
        sizes = [self._disk.file_size(f"{self.directory}/{name}") for name in names]
        if 0 in (sizes if is_derived else sizes[-1:]):
            kept = sizes.index(0) if is_derived else len(sizes) - 1
            for name in reversed(names[kept:]):
                if not read_only:
                    self._disk.unlink(f"{self.directory}/{name}")
            del names[kept:]
        self.bases = [int(name) for name in names]
        for i, (name, size) in enumerate(zip(names, sizes, strict=False)):
            self._check(f"{self.directory}/{name}", size, self.bases[i], self.bases[0] + i * self.file_size_bytes)

    def _check(self, path: str, size: int, base: int, expected_base: int) -> None:
        if size != self.file_size_bytes:
            raise StorageError(
                f"{path} is {size} bytes long; files here should have {self.file_size_bytes}",
                hint="set the file size that this store was made with (mappedFileSizeCommitLog, "
                f"mappedFileSizeConsumeQueue); or, if it is damaged, put back a copy. {QUEUES_ANEW}",
            )
        if base != expected_base:
            raise StorageError(
                f"{path}: a file that should start at offset {expected_base} is missing before it",
                hint="put the missing file back. In a commit log, the files before the gap may be moved away instead. "
                f"{QUEUES_ANEW}",
            )

    @property
    def min_offset(self) -> int:
        return self.bases[0] if self.bases else 0

    @property
    def end_offset(self) -> int:
        """Just after the last file."""
        return self.bases[-1] + self.file_size_bytes if self.bases else 0

    def path(self, base: int) -> str:
        return f"{self.directory}/{base:0{NAME_DIGITS}d}"

    def base_of(self, offset: int) -> int:
        """First offset of the file that holds ``offset``, whether it exists or not."""
        return offset - offset % self.file_size_bytes

    def file(self, base: int) -> File:
        """OSError (FileNotFoundError) if it does not exist."""
        return self._cache.open(self.path(base))

    def read(self, offset: int, size_bytes: int, *, cached_only: bool = False) -> bytes:
        """Bytes of one file; fewer at its end, none if the file does not exist. NotCached, with one place, if
        ``cached_only`` and that would wait for the device."""
        base = offset - offset % self.file_size_bytes
        if not self.bases or not self.bases[0] <= base <= self.bases[-1]:
            return b""
        inside = offset - base
        file, size_bytes = self.file(base), min(size_bytes, self.file_size_bytes - inside)
        if not cached_only:
            return file.pread(size_bytes, inside)
        data = file.pread_cached(size_bytes, inside)
        return data if data is not None else in_memory_only(partial(file.pread, size_bytes, inside), {})

    def create(self, base: int) -> File:
        """Makes the file, at full size, unless it exists. Durable once it and the directories above are synced."""
        assert base % self.file_size_bytes == 0
        self._disk.mkdir(self.directory)
        file = self._cache.open(self.path(base), self.file_size_bytes)
        self.adopt(base)
        return file

    def make_durable(self, base: int) -> File:
        """Makes the file, but not as part of the stream; it is on the device at return. Any thread may call this ahead
        of need."""
        self._disk.mkdir(self.directory)
        file = self._cache.open(self.path(base), self.file_size_bytes)
        file.fdatasync()
        self._disk.sync_directory(self.directory)
        return file

    def adopt(self, base: int) -> None:
        """Makes the existing file a part of the stream."""
        if not self.bases or base > self.bases[-1]:
            assert not self.bases or base == self.bases[-1] + self.file_size_bytes
            self.bases.append(base)

    def delete_first(self) -> None:
        self._disk.unlink(self.forget_first())

    def forget_first(self) -> str:
        """Takes the first file out of the stream and returns its path; the caller removes it from the disk."""
        path = self.path(self.bases.pop(0))
        self._cache.drop(path)
        return path

    def delete_after(self, offset: int) -> None:
        """Removes every file that starts behind ``offset``, the last first: a crash leaves no gap."""
        while len(self.bases) > bisect_right(self.bases, offset):
            self._delete(self.bases.pop())

    def delete_all(self) -> None:
        while self.bases:
            self._delete(self.bases.pop())

    def _delete(self, base: int) -> None:
        path = self.path(base)
        self._cache.drop(path)
        self._disk.unlink(path)


def clear(segments: SegmentedFile, start: int) -> None:
    """Writes zeros from ``start`` to the end of its file; they are on the device at return. Without them, what a crash
    left there could look valid once new bytes reach it."""
    base = segments.base_of(start)
    if base not in segments.bases:
        return
    file, at = segments.file(base), start - base
    was_dirty, chunk_bytes = False, CLEAR_CHUNK_BYTES_MIN
    while (at := file.next_data(at)) < segments.file_size_bytes:
        size = min(chunk_bytes - at % CLEAR_CHUNK_BYTES_MIN, segments.file_size_bytes - at)
        chunk_bytes = min(2 * chunk_bytes, CLEAR_CHUNK_BYTES_MAX)
        if file.pread(size, at).count(0) != size:
            file.pwrite(bytes(size), at)
            was_dirty = True
        at += size
    if was_dirty:
        file.fdatasync()


QUEUE_FILES_ASKED = 200
"""Consume queue files whose size is checked: a store may have a hundred thousand."""


def file_size_in(disk: Disk, *directories: str) -> int:
    """The size of the files of a stream, or of several streams with one size, in bytes; 0 if there are none. If sizes
    differ, the majority wins: files vote by their size, and by their names, which are multiples of it."""
    names = [(directory, name) for directory in directories for name in stream_names(disk, directory)]
    sizes = Counter(size for directory, name in names if (size := disk.file_size(f"{directory}/{name}")))
    if not sizes:
        return 0

    def votes(size: int) -> tuple[int, int]:
        return sizes[size] + sum(not int(name) % size for _, name in names if int(name)), size

    return max(sizes, key=votes)


def queue_file_size(disk: Disk, consume_queues: str) -> int:
    """The size of consume queue files, in bytes; 0 if there are none."""
    return file_size_in(disk, *islice(_queue_directories(disk, consume_queues), QUEUE_FILES_ASKED))


def _queue_directories(disk: Disk, consume_queues: str) -> Iterable[str]:
    for topic in disk.listdir(consume_queues):
        if disk.is_directory(f"{consume_queues}/{topic}"):
            for queue in disk.listdir(f"{consume_queues}/{topic}"):
                directory = f"{consume_queues}/{topic}/{queue}"
                if queue.isdecimal() and disk.is_directory(directory) and stream_names(disk, directory):
                    yield directory


def stream_names(disk: Disk, directory: str) -> list[str]:
    """The names in a directory that name files of a stream, in order."""
    found = disk.listdir(directory) if disk.is_directory(directory) else []
    return [name for name in found if is_stream_name(name)]


def is_stream_name(name: str) -> bool:
    """Whether a stream's file can have the name, which is the offset of its first byte."""
    return len(name) == NAME_DIGITS and name.isdecimal()
