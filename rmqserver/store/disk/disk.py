"""The only door to the file system. Everything that must survive a crash is an explicit call here (``pwrite``,
``fdatasync``, ``rename``, ``sync_directory``), so that a simulator with the same methods can build every image that a
crash may leave. Writes never go through a mapping: a full disk must be an error, not a signal."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from rmqproto.errors import StorageError
from rmqserver.store.disk.cached_reads import NotCached, mode

_FALLOC_KEEP_SIZE = 1
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)

_LARGE_MIN_BYTES, _LARGE_MAX_BYTES = 64 << 10, 1 << 20
_large_buffers: list[bytearray] = []
"""Buffers for reads of these sizes, each used by one read at a time. A new buffer is zeroed first, which takes as long
as the read."""
# struct flock of 64-bit Linux: type i16 | whence i16 | start i64 | length i64 | pid i32
_FLOCK = struct.Struct("hhqqi")
# Locks of an open file description also work within a process, and against Java's FileChannel lock.
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)
_GET_LOCK = getattr(fcntl, "F_OFD_GETLK", None)


_EMPTY_READ_BYTES = 1 << 20

SYNCFS_TELLS_SINCE = (5, 8)
"""Linux only: in earlier versions ``syncfs`` succeeded whatever the device reported."""


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Errors that end by themselves when there is room again, or when others have closed files, such as the sockets of
clients. Nothing is wrong with the device."""


class DiskUsage(NamedTuple):
    used_bytes: int
    usable_bytes: int

    @property
    def used_percent(self) -> int:
        """Whole percent, rounded up, as Apache counts (``UtilAll.getDiskPartitionSpaceUsedPercent``)."""
        total = self.used_bytes + self.usable_bytes
        return -(-self.used_bytes * 100 // total) if total else 0


class File(Protocol):
    """An open file. Dropping the last reference closes it, so a reader in another thread never meets a reused
    descriptor. Call ``close`` only if nothing else uses the file."""

    path: str

    @property
    def fd(self) -> int:
        """The system's descriptor, for reads that go past this class; -1 if there is none. Only for as long as the file
        is held."""

    def size(self) -> int: ...

    def pread(self, size_bytes: int, at: int) -> bytes:
        """Up to ``size_bytes``; shorter only at the end of the file. Raises NotCached within ``cached_only`` if that
        would wait for the device, and the system can tell."""

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        """As ``pread``, but None if that would wait for the device, or if the system cannot tell."""

    def pread_cached_into(self, memory: memoryview, at: int) -> bool:
        """Fills the memory. False if the file ends before, if that would wait for the device, or if the system cannot
        tell; what is in the memory is undefined then."""

    def pread_direct(self, memory: memoryview, at: int) -> int:
        """Fills the memory as far as the file goes, and returns the number of bytes. Leaves nothing in the page cache,
        if the file system can do that. The memory, its size and the place should start with a page, or at least with a
        sector."""

    def next_data(self, at: int) -> int:
        """The first place from ``at`` on that may hold anything but zeros; the file's size if there is none. Skips
        holes of sparse files without reading them."""

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Writes all bytes, or raises OSError (some of them may be written then)."""

    def pwrite_direct(self, data: memoryview, at: int) -> None:
        """As ``pwrite``, but leaves nothing in the page cache, if the file system can do that. The memory, its size and
        the place should start with a page, or at least with a sector."""

    def fdatasync(self) -> None:
        """Data, and the size if it grew, are on the device at return. After an OSError the state is unknown: never try
        again."""

    def allocate(self, at: int, size_bytes: int) -> None:
        """Reserves space without changing the size. OSError when the disk is full; a no-op where not supported."""

    def truncate(self, size_bytes: int) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute or relative to the working directory; errors are OSError."""

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> File:
        """Opens an existing file; with ``create_size_bytes`` a missing one is made, sparse, at that size."""

    def create_private(self, path: str) -> File:
        """Makes a new, empty file that only its owner may read and write (0600). FileExistsError if it exists."""

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted; none if it does not exist."""

    def is_file(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def file_size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def kept_id(self, path: str) -> str:
        """Identifies this file within this run of the operating system. While the id is the same, everything written to
        the file system is still there, on the device or in the page cache. A copy has another id. Empty if the system
        cannot tell."""

    def mkdir(self, path: str) -> None:
        """Makes a directory with its parents; does nothing if it exists. Durable once each parent was synced."""

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None:
        """Removes a file; does nothing if it is missing."""

    def rmdir(self, path: str) -> None:
        """Removes an empty directory; does nothing if it is missing."""

    def sync_directory(self, path: str) -> None: ...

    @property
    def can_sync_file_system(self) -> bool:
        """Whether the system has such a call that reports errors."""

    def sync_file_system(self, path: str) -> None:
        """Everything that any process has written to the file system of ``path``, and every name there, is on the
        device. As with ``fdatasync``, never try again after an OSError."""

    def read_bytes(self, path: str) -> bytes: ...

    def usage(self, path: str) -> DiskUsage:
        """Of the disk that a directory is on; if the directory is gone, of the one that it was on."""

    def lock(self, path: str) -> File:
        """Opens the file, made if missing, with byte 0 locked until it is closed. BlockingIOError if another holder has
        the lock."""

    def lock_owner(self, path: str) -> int | None:
        """The process that has byte 0 of a file locked; 0 if the system does not say which. None if the byte is not
        locked, the file is missing, or the system cannot tell. Takes no lock."""


class OsFile:
    """A file of the operating system."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str, fd: int):
        self.path = path
        self.fd = fd

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def pread(self, size_bytes: int, at: int) -> bytes:
        if mode.loaded is not None:
            found = mode.loaded.get((self, size_bytes, at))
            if found is None:
                found = self.pread_cached(size_bytes, at)
            if found is not None:
                return found
            if self.can_tell_cached(at):
                raise NotCached([(self, size_bytes, at)])
        data = os.pread(self.fd, size_bytes, at)
        if len(data) == size_bytes or not data:
            return data
        parts = [data]  # a signal or the kernel's 2 GiB limit cut it short, or the file ends here
        while data := os.pread(self.fd, size_bytes - sum(map(len, parts)), at + sum(map(len, parts))):
            parts.append(data)
        return b"".join(parts)

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        if not _LARGE_MIN_BYTES <= size_bytes <= _LARGE_MAX_BYTES:
            data = bytearray(size_bytes)
            return bytes(data) if self.pread_cached_into(memoryview(data), at) else None
        buffer = _large_buffers.pop() if _large_buffers else bytearray(_LARGE_MAX_BYTES)
        try:
            view = memoryview(buffer)[:size_bytes]
            return bytes(view) if self.pread_cached_into(view, at) else None
        finally:
            _large_buffers.append(buffer)

    def pread_cached_into(self, memory: memoryview, at: int) -> bool:
        if not _NOWAIT:
            return False
        try:
            return os.preadv(self.fd, [memory], at, _NOWAIT) == len(memory)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP):
                return False
            raise

    def can_tell_cached(self, at: int) -> bool:
        """Whether the system knows if a read there would wait for the device."""
        if not _NOWAIT:
            return False
        try:
            os.preadv(self.fd, [bytearray(1)], at, _NOWAIT)
        except OSError as error:
            return error.errno != errno.EOPNOTSUPP
        return True

    def pread_direct(self, memory: memoryview, at: int) -> int:
        count = self._direct(lambda fd: os.preadv(fd, [memory], at))
        while count < len(memory) and (more := os.preadv(self.fd, [memory[count:]], at + count)):
            count += more
        return count

    def next_data(self, at: int) -> int:
        try:
            return os.lseek(self.fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return self.size()
            return at

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        written = os.pwrite(self.fd, data, at)
        while written < len(data):
            more = os.pwrite(self.fd, memoryview(data)[written:], at + written)
            if not more:
                raise OSError(errno.EIO, "write made no progress", self.path)
            written += more

    def pwrite_direct(self, data: memoryview, at: int) -> None:
        written = self._direct(lambda fd: os.pwrite(fd, data, at))
        if written < len(data):
            self.pwrite(data[written:], at + written)

    def _direct(self, transfer: Callable[[int], int]) -> int:
        """Has ``transfer`` move bytes by another descriptor of this file, which goes past the page cache. Returns how
        many it moved; 0 if the file system or the device cannot do that."""
        try:
            access = fcntl.fcntl(self.fd, fcntl.F_GETFL) & os.O_ACCMODE
            fd = os.open(f"/proc/self/fd/{self.fd}", access | os.O_CLOEXEC | os.O_DIRECT)
        except (OSError, AttributeError):  # only Linux has the flag
            return 0
        try:
            return transfer(fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the device wants larger sectors
                raise
            return 0
        finally:
            os.close(fd)

    def fdatasync(self) -> None:
        os.fdatasync(self.fd)

    def allocate(self, at: int, size_bytes: int) -> None:
        _fallocate(self.fd, at, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self.fd, size_bytes)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


class OsDisk:
    """The operating system's files."""

    boot_id_path = "/proc/sys/kernel/random/boot_id"
    """A file whose content changes with each start of the machine."""

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> OsFile:
        flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
        try:
            return OsFile(path, os.open(path, flags))
        except FileNotFoundError:
            if create_size_bytes is None:
                raise
        file = OsFile(path, os.open(path, flags | os.O_CREAT, 0o644))
        file.truncate(create_size_bytes)
        return file

    def create_private(self, path: str) -> OsFile:
        return OsFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def is_file(self, path: str) -> bool:
        return os.path.isfile(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def kept_id(self, path: str) -> str:
        try:
            with open(self.boot_id_path, encoding="ascii") as file:
                boot_id = file.read().strip()
        except OSError:
            return ""
        status = os.stat(path)
        return f"{boot_id}:{status.st_dev}:{status.st_ino}"

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def rmdir(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @property
    def can_sync_file_system(self) -> bool:
        return sys.platform == "linux" and _linux_version() >= SYNCFS_TELLS_SINCE

    def sync_file_system(self, path: str) -> None:
        import ctypes

        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        finally:
            os.close(fd)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def usage(self, path: str) -> DiskUsage:
        try:
            found = os.statvfs(path)
        except FileNotFoundError:
            return self.usage(os.path.dirname(os.path.abspath(path)))
        return DiskUsage((found.f_blocks - found.f_bfree) * found.f_frsize, found.f_bavail * found.f_frsize)

    def lock(self, path: str) -> OsFile:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        file = OsFile(path, fd)
        try:
            if _SET_LOCK is None:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            else:
                fcntl.fcntl(fd, _SET_LOCK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        except OSError as error:
            file.close()
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(error.errno, "held by another process", path) from None
            raise
        return file

    def lock_owner(self, path: str) -> int | None:
        if _GET_LOCK is None or not self.is_file(path):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = fcntl.fcntl(fd, _GET_LOCK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        except OSError:  # the file system has no locks
            return None
        finally:
            os.close(fd)
        kind, _, _, _, process_id = _FLOCK.unpack(found[: _FLOCK.size])
        return None if kind == fcntl.F_UNLCK else max(process_id, 0)


def make_directory(disk: Disk, path: str) -> None:
    """Makes a directory and its parents; their names are on the device at return. The name of an existing directory is
    synced too: a process may have made it and been killed before the sync."""
    missing = []
    while path and not disk.is_directory(path):
        missing.append(path)
        path = os.path.dirname(path)
    with contextlib.suppress(PermissionError):  # a process that may not read the parent did not make its entry either
        disk.sync_directory(os.path.dirname(path) or ".")
    for path in reversed(missing):
        disk.mkdir(path)
        disk.sync_directory(os.path.dirname(path) or ".")


def is_empty(file: File, start: int, end: int) -> bool:
    """Whether this range of a file holds nothing but zeros."""
    while start < end and (start := file.next_data(start)) < end:
        data = file.pread(min(_EMPTY_READ_BYTES, end - start), start)
        if data.count(0) != len(data):
            return False
        start += len(data) or end
    return True


def storage_error(error: Exception, doing: str, path: str) -> StorageError:
    """An error in the store's words: what failed, where, and, if the operating system tells, what to do about it."""
    hints = {
        errno.ENOSPC: "free space on this disk, or move the store to a larger one",
        errno.EACCES: "run as the user that owns the store directory",
        errno.EROFS: "the file system is mounted read-only",
        errno.EMFILE: "raise the limit of open files (ulimit -n)",
        errno.ENOTDIR: "move it away: a directory should be there",
        errno.EEXIST: "move it away: a directory should be there",
        errno.EISDIR: "move it away: a file of the store should be there",
        errno.EIO: "the device reports errors: look at the kernel's log before writing to it again",
    }
    if not isinstance(error, OSError):
        return StorageError(f"{doing} {path}: {error!r}")
    text = f"{doing} {path}: {error.strerror or error}"
    found = StorageError(text, hint=hints.get(error.errno or 0))
    found.lacks_room = error.errno in NO_ROOM
    return found


def _fallocate(fd: int, at: int, size_bytes: int) -> None:
    # Not os.posix_fallocate: on a file system without such a call, glibc writes zeros instead, into bytes that another
    # thread may be writing at that moment. ctypes costs 10 ms once, in the thread that makes files.
    call = _libc_fallocate()
    if call is not None and call(fd, _FALLOC_KEEP_SIZE, at, size_bytes):
        import ctypes

        code = ctypes.get_errno()
        if code == errno.ENOSPC:
            raise OSError(code, os.strerror(code))


@functools.cache
def _linux_version() -> tuple[int, ...]:
    """The first two numbers of the version."""
    return tuple(int(part) for part in os.uname().release.split(".")[:2] if part.isdecimal())


@functools.cache
def _libc_fallocate() -> Callable[[int, int, int, int], int] | None:
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if call is None:
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return cast(Callable[[int, int, int, int], int], call)
