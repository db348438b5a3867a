"""The commit log's files: reads records and flushes. ``append/appender.py`` appends and rolls to the next file;
``recovery/recovery.py`` decides where the log ends after a crash."""

from __future__ import annotations

import struct

from rmqproto.message.record import MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN_BYTES
from rmqserver.store.disk.cached_reads import NotCached, Place
from rmqserver.store.disk.disk import Disk, File
from rmqserver.store.disk.segments import FileCache, SegmentedFile
from rmqserver.store.results import LogRange

# The end of a file (CommitLog, 5.5.0), big-endian: bytes left i32 | magic 0xCBD43194 i32; the rest stays as it is
BLANK = struct.Struct(">ii")
BLANK_SIZE_BYTES = BLANK.size
"""At least this much stays free for the blank at the end of every file."""

HOT_BYTES = 32 << 20
"""The newest part of the log was written a moment ago, so it is taken to be in memory without asking, unless it was
written past the page cache."""

_NOWHERE = (1 << 63) - 1

PAGE_BYTES = 4096
"""Direct reads start and end at multiples of this."""

RECORD_READ_BYTES = 1024
"""Bytes read of a record of unknown size: most records are no larger, and a system call costs more than the bytes."""

SPAN_MAX_BYTES = 1 << 20
GAP_MAX_BYTES = 16 << 10
"""Ranges with a gap up to this one are read together, up to a span of the size above."""


class CommitLog:
    """The stream of records. ``written_offset`` is the end of what is in the files; readers see only what lies before
    ``confirmed_offset``."""

    def __init__(self, directory: str, file_size_bytes: int, disk: Disk, cache: FileCache):
        self.segments = SegmentedFile(directory, file_size_bytes, disk, cache)
        self.file_size_bytes = file_size_bytes
        self.written_offset = 0
        self.confirmed_offset = 0
        self.last_write: tuple[int, bytes] = (_NOWHERE, b"")
        """Log offset of the newest write, and its bytes. A consumer that waits for a message wants it in the same
        round, and gets it without a system call."""
        self.uncached_offset = 0
        """Log offset up to which the log may be outside the page cache: it was written past it, or before the start."""
        self._newest: tuple[int, File | None] = (_NOWHERE, None)

    def use_newest(self, base: int, file: File) -> None:
        """Keeps the file that is being written: most reads go to it, and need no look-up in the cache."""
        self._newest = (base, file)

    @property
    def min_offset(self) -> int:
        return self.segments.min_offset

    def has(self, log_offset: int, size_bytes: int) -> bool:
        return self.segments.min_offset <= log_offset and log_offset + size_bytes <= self.confirmed_offset

    def read(self, log_offset: int, size_bytes: int) -> bytes:
        """May wait for the device. Any thread. Returns fewer bytes at the end of a file, none if there is no file."""
        start, data = self.last_write
        if log_offset >= start:
            return data[log_offset - start : log_offset - start + size_bytes]
        base, file = self._newest
        inside = log_offset - base
        if file is None or not 0 <= inside < self.file_size_bytes:
            return self.segments.read(log_offset, size_bytes)
        return file.pread(min(size_bytes, self.file_size_bytes - inside), inside)

    def read_cached(self, log_offset: int, size_bytes: int) -> bytes | None:
        """As ``read``, or None if that may wait for the device."""
        if self._is_hot(log_offset):
            return self.read(log_offset, size_bytes)
        base, file = self._file_of(log_offset)
        return b"" if file is None else file.pread_cached(size_bytes, log_offset - base)

    def read_cached_into(self, log_offset: int, memory: memoryview) -> bytes | memoryview | None:
        """As ``read_cached`` for the memory's size, which must not go past the end of a file. The result is usually the
        memory: that spares a copy."""
        if self._is_hot(log_offset):
            return self.read(log_offset, len(memory))
        base, file = self._file_of(log_offset)
        if file is None:
            return b""
        return memory if file.pread_cached_into(memory, log_offset - base) else None

    def _is_hot(self, log_offset: int) -> bool:
        """Whether it is so new that it is surely in memory."""
        return log_offset >= self.written_offset - HOT_BYTES and log_offset >= self.uncached_offset

    def _file_of(self, log_offset: int) -> tuple[int, File | None]:
        """The file's first log offset and the file; None if there is none."""
        base, file = self._newest
        if file is None or not 0 <= log_offset - base < self.file_size_bytes:
            base = self.segments.base_of(log_offset)
            file = self.segments.file(base) if base in self.segments.bases else None
        return base, file

    def read_direct(self, log_offset: int, size_bytes: int, memory: memoryview) -> memoryview:
        """As ``read``, but past the page cache into ``memory``, of which the result is a part. The memory starts with a
        page, and holds PAGE_BYTES more at both ends."""
        segments = self.segments
        base = segments.base_of(log_offset)
        if base not in segments.bases:
            return memory[:0]
        inside = log_offset - base
        before = inside % PAGE_BYTES
        end = before + min(size_bytes, self.file_size_bytes - inside)
        whole_bytes = -(-end // PAGE_BYTES) * PAGE_BYTES
        count = segments.file(base).pread_direct(memory[:whole_bytes], inside - before)
        return memory[before : min(end, count)]

    def read_ranges(self, ranges: list[LogRange], *, cached_only: bool = False) -> list[bytes] | None:
        """The bytes of each range; ranges ascend, unless units are damaged. Ranges near each other are read as one:
        records of a queue lie among those of other queues, and a system call costs as much as 4 KiB. None if
        ``cached_only`` and the read may wait."""
        read = self.read_cached if cached_only else self.read
        first, count = 0, len(ranges)
        if count == 1:
            data = read(*ranges[0])
            return None if data is None else [data]
        found: list[bytes] = []
        missing: list[Place] = []
        while first < count:
            start, size = ranges[first]
            end, limit = start + size, min(start + SPAN_MAX_BYTES, self.segments.base_of(start) + self.file_size_bytes)
            last = first + 1
            while last < count and 0 <= ranges[last][0] - end <= GAP_MAX_BYTES and sum(ranges[last]) <= limit:
                end = sum(ranges[last])
                last += 1
            try:
                data = read(start, end - start)
            except NotCached as error:  # all of them are loaded in one go
                missing += error.missing
                data = b""
            if data is None:
                return None
            if last == first + 1:
                found.append(data)
            else:
                found += [data[at - start : at - start + size] for at, size in ranges[first:last]]
            first = last
        if missing:
            raise NotCached(missing)
        return found

    def record(self, log_offset: int) -> bytes | None:
        """The visible record that starts there; None if size and magic show that none does."""
        if not self.has(log_offset, RECORD_SIZE_MIN_BYTES):
            return None
        data = self.read(log_offset, RECORD_READ_BYTES)
        if len(data) < BLANK_SIZE_BYTES:
            return None
        size, magic = BLANK.unpack_from(data)
        if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_SIZE_MIN_BYTES or not self.has(log_offset, size):
            return None
        if size > len(data):
            data = self.read(log_offset, size)
        return data[:size] if len(data) >= size else None

    def flush(self, start: int, end: int) -> None:
        """All bytes of [start, end) are on the device at return. The flush thread calls it. After an OSError, never
        call it again."""
        base = self.segments.base_of(start)
        while base < end:
            self.segments.file(base).fdatasync()
            base += self.file_size_bytes
