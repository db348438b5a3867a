"""The one door to the file system. Everything that must survive a crash is an explicit call here (``pwrite``,
``fdatasync``, ``rename``, ``sync_directory``), so that a simulator with the same methods can build every image that a
crash may leave. Writes never go through a mapping: a full disk must be an error, not a signal."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from typing import NamedTuple, Protocol

from rmqproto.errors import StorageError

_FALLOC_KEEP_SIZE = 1
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
# struct flock of 64-bit Linux: type i16 | whence i16 | start i64 | length i64 | pid i32
_FLOCK = struct.Struct("hhqqi")
# Locks of an open file description also hold within one process; Java's FileChannel lock and these see each other.
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)


class DiskUsage(NamedTuple):
    used_bytes: int
    usable_bytes: int

    @property
    def used_percent(self) -> int:
        """Whole percent, rounded up, as Apache counts (``UtilAll.getDiskPartitionSpaceUsedPercent``)."""
        total = self.used_bytes + self.usable_bytes
        return -(-self.used_bytes * 100 // total) if total else 0


class File(Protocol):
    """An open file. Dropping the last reference closes it, so a reader in another thread can never meet a reused
    descriptor; ``close`` is for those who know that they are alone."""

    path: str

    def size(self) -> int: ...

    def pread(self, size_bytes: int, at: int) -> bytes:
        """Up to ``size_bytes``; shorter only at the end of the file."""

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        """As ``pread``, but None where that would wait for the device (or nothing can tell)."""

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """All bytes, or OSError (some of them may then be written)."""

    def fdatasync(self) -> None:
        """Data, and the size if it grew, are on the device. After an OSError nothing is known: never try again."""

    def allocate(self, at: int, size_bytes: int) -> None:
        """Reserve space without changing the size. OSError when the disk is full; a no-op where not supported."""

    def truncate(self, size_bytes: int) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute or relative to the working directory; errors are OSError."""

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> File:
        """An existing file; with ``create_size_bytes`` a missing one is made, sparse, at that size."""

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted; none if it does not exist."""

    def is_file(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def file_size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def mkdir(self, path: str) -> None:
        """With parents, each made durable in its own parent; nothing if it is there."""

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None:
        """Nothing if it is missing."""

    def rmdir(self, path: str) -> None:
        """An empty directory; nothing if it is missing."""

    def sync_directory(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def usage(self, path: str) -> DiskUsage: ...

    def lock(self, path: str) -> File:
        """The file, made if missing, with byte 0 locked until it is closed. BlockingIOError if another holds it."""


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int):
        self.path = path
        self._fd = fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, size_bytes: int, at: int) -> bytes:
        data = os.pread(self._fd, size_bytes, at)
        if len(data) == size_bytes or not data:
            return data
        parts = [data]  # a signal or the kernel's 2 GiB limit cut it short, or this is the end of the file
        while data := os.pread(self._fd, size_bytes - sum(map(len, parts)), at + sum(map(len, parts))):
            parts.append(data)
        return b"".join(parts)

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        if not _NOWAIT:
            return None
        data = bytearray(size_bytes)
        try:
            got = os.preadv(self._fd, [data], at, _NOWAIT)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP):
                return None
            raise
        return bytes(data) if got == size_bytes else None

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        written = os.pwrite(self._fd, data, at)
        while written < len(data):
            more = os.pwrite(self._fd, memoryview(data)[written:], at + written)
            if not more:
                raise OSError(errno.EIO, "write made no progress", self.path)
            written += more

    def fdatasync(self) -> None:
        os.fdatasync(self._fd)

    def allocate(self, at: int, size_bytes: int) -> None:
        _fallocate(self._fd, at, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()
