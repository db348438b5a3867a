"""A disk that takes every change and makes none. Writes go to a temporary file elsewhere; the files of another disk lie
below and are only read. It serves to try what a start would do to a store."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable

from rmqserver.store.disk.disk import Disk, DiskUsage, File

PAGE_BYTES = 4096

Range = tuple[int, int]
"""First byte, and the one behind the last."""


class _Content:
    """The content of a file: written pages, over ``below`` as far as that reaches, over zeros."""

    def __init__(self, below: File | None, size: int):
        self.below = below
        self.below_size = size if below is not None else 0
        self.size = size
        self.slots: dict[int, int] = {}
        """Where in the temporary file each written page lies."""
        self.written: list[Range] = []
        self.is_new = below is None
        """Whether the file was made here, or has another name than below."""

    def note(self, start: int, end: int) -> None:
        if self.written and self.written[-1][1] == start:
            start = self.written.pop()[0]
        self.written.append((start, end))


class OverlayFile:
    """A file as it would be now."""

    fd = -1

    def __init__(self, path: str, content: _Content, disk: OverlayDisk):
        self.path = path
        self._content = content
        self._disk = disk

    def size(self) -> int:
        return self._content.size

    def pread(self, size_bytes: int, at: int) -> bytes:
        content = self._content
        size_bytes = max(0, min(size_bytes, content.size - at))
        data = b""
        if content.below is not None and at < content.below_size:
            data = content.below.pread(min(size_bytes, content.below_size - at), at)
        if not content.slots:
            return data.ljust(size_bytes, b"\0")
        mixed = bytearray(data.ljust(size_bytes, b"\0"))
        for number in range(at // PAGE_BYTES, -(-(at + size_bytes) // PAGE_BYTES)):
            slot = content.slots.get(number)
            if slot is not None:
                first = number * PAGE_BYTES
                start, stop = max(first, at), min(first + PAGE_BYTES, at + size_bytes)
                mixed[start - at : stop - at] = self._disk.page(slot)[start - first : stop - first]
        return bytes(mixed)

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        data = self.pread(size_bytes, at)
        return data if len(data) == size_bytes else None

    def pread_cached_into(self, memory: memoryview, at: int) -> bool:
        return self.pread_direct(memory, at) == len(memory)

    def pread_direct(self, memory: memoryview, at: int) -> int:
        data = self.pread(len(memory), at)
        memory[: len(data)] = data
        return len(data)

    def next_data(self, at: int) -> int:
        content = self._content
        found = content.size
        if content.below is not None and at < content.below_size:
            below = content.below.next_data(at)
            found = below if below < content.below_size else found
        first = at // PAGE_BYTES
        above = min((number for number in content.slots if number >= first), default=None)
        return found if above is None else min(found, max(at, above * PAGE_BYTES))

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        if not data:
            return
        content, end = self._content, at + len(data)
        content.note(at, end)
        start = at
        while start < end:
            number = start // PAGE_BYTES
            first = number * PAGE_BYTES
            stop = min(first + PAGE_BYTES, end)
            page = bytearray(self.pread(PAGE_BYTES, first).ljust(PAGE_BYTES, b"\0"))
            page[start - first : stop - first] = data[start - at : stop - at]
            content.slots[number] = self._disk.put_page(page, content.slots.get(number))
            start = stop
        content.size = max(content.size, end)

    pwrite_direct = pwrite

    def fdatasync(self) -> None:
        pass

    def allocate(self, at: int, size_bytes: int) -> None:
        pass

    def truncate(self, size_bytes: int) -> None:
        content = self._content
        content.note(*sorted((size_bytes, content.size)))
        if size_bytes < content.size:
            keep = -(-size_bytes // PAGE_BYTES)
            content.slots = {number: slot for number, slot in content.slots.items() if number < keep}
            content.below_size = min(content.below_size, size_bytes)
            if (slot := content.slots.get(keep - 1)) is not None and size_bytes % PAGE_BYTES:
                page = bytearray(self._disk.page(slot)[: size_bytes % PAGE_BYTES]).ljust(PAGE_BYTES, b"\0")
                self._disk.put_page(page, slot)
        content.size = size_bytes

    def close(self) -> None:
        pass


class OverlayDisk:
    """A ``Disk`` over another one. Its temporary file disappears with it. It takes no locks and syncs nothing."""

    can_sync_file_system = True

    def __init__(self, below: Disk):
        self._below = below
        self._contents: dict[str, _Content] = {}
        """Opened files, as they are now."""
        self._names: dict[str, dict[str, bool]] = {}
        """By directory: names that were added (True) or removed (False)."""
        self._made: set[str] = set()
        """Directories that exist here and not below."""
        self._gone: set[str] = set()
        """Directories and files that exist below and not here."""
        self._pages = tempfile.TemporaryFile()  # noqa: SIM115  closed when this object goes
        self._page_count = 0

    # -- what it would leave

    def written(self, path: str) -> list[Range]:
        """The written ranges of a file, in order and merged."""
        content = self._contents.get(path)
        return _merged(content.written) if content is not None else []

    def changed_paths(self) -> list[str]:
        """Files that were made or written, and still exist."""
        return sorted(path for path, content in self._contents.items() if content.is_new or self.written(path))

    def removed_paths(self) -> list[str]:
        """Files that exist below and were removed here, even if they were then made again."""
        return sorted(path for path in self._gone if self._below.is_file(path))

    # -- pages

    def page(self, slot: int) -> bytes:
        return os.pread(self._pages.fileno(), PAGE_BYTES, slot * PAGE_BYTES)

    def put_page(self, page: bytes | bytearray, slot: int | None) -> int:
        """Stores the page and returns its slot."""
        if slot is None:
            slot = self._page_count
            self._page_count += 1
        os.pwrite(self._pages.fileno(), page, slot * PAGE_BYTES)
        return slot

    # -- Disk

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> OverlayFile:
        content = self._contents.get(path)
        if content is None and path not in self._gone and self._below.is_file(path):
            below = self._below.open(path, read_only=True)
            content = self._contents[path] = _Content(below, below.size())
        if content is None:
            if create_size_bytes is None or self.is_directory(path):
                raise _missing(path) if create_size_bytes is None else _is_directory(path)
            self._check_parent(path)
            content = self._contents[path] = _Content(None, create_size_bytes)
            self._name(path, is_there=True)
        return OverlayFile(path, content, self)

    def create_private(self, path: str) -> OverlayFile:
        return self.open(path, create_size_bytes=0)

    def _check_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if not self.is_directory(parent):
            raise _missing(path)

    def _name(self, path: str, *, is_there: bool) -> None:
        directory, _, name = path.rpartition("/")
        self._names.setdefault(directory, {})[name] = is_there

    def listdir(self, path: str) -> list[str]:
        names = set() if path in self._made or path in self._gone else set(self._below.listdir(path))
        for name, is_there in self._names.get(path, {}).items():
            (names.add if is_there else names.discard)(name)
        return sorted(names)

    def is_file(self, path: str) -> bool:
        return path in self._contents or (path not in self._gone and self._below.is_file(path))

    def is_directory(self, path: str) -> bool:
        return path in self._made or (path not in self._gone and self._below.is_directory(path))

    def file_size(self, path: str) -> int:
        content = self._contents.get(path)
        if content is not None:
            return content.size
        if path in self._gone:
            raise _missing(path)
        return self._below.file_size(path)

    def modified_ms(self, path: str) -> int:
        return self._below.modified_ms(path)

    def kept_id(self, path: str) -> str:
        """The id of the file or directory below; none for one that was made here."""
        is_below = self._below.is_file(path) or self._below.is_directory(path)
        return self._below.kept_id(path) if is_below and path not in self._gone else ""

    def mkdir(self, path: str) -> None:
        missing = []
        while path and not self.is_directory(path):
            if self.is_file(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            missing.append(path)
            path = path.rpartition("/")[0]
        for each in missing:
            self._made.add(each)
            self._name(each, is_there=True)

    def rename(self, source: str, target: str) -> None:
        self.open(source)
        self._check_parent(target)
        if source == target:
            return
        content = self._contents.pop(source)
        self._forget(source)
        if self._below.is_file(target):
            self._gone.add(target)
        content.is_new = True
        self._contents[target] = content
        self._name(target, is_there=True)

    def _forget(self, path: str) -> None:
        self._contents.pop(path, None)
        if self._below.is_file(path):
            self._gone.add(path)
        self._name(path, is_there=False)

    def unlink(self, path: str) -> None:
        if self.is_file(path):
            self._forget(path)

    def rmdir(self, path: str) -> None:
        if not self.is_directory(path):
            return
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._made.discard(path)
        if self._below.is_directory(path):
            self._gone.add(path)
        self._name(path, is_there=False)

    def sync_directory(self, path: str) -> None:
        pass

    def sync_file_system(self, path: str) -> None:
        pass

    def read_bytes(self, path: str) -> bytes:
        file = self.open(path)
        return file.pread(file.size(), 0)

    def usage(self, path: str) -> DiskUsage:
        return self._below.usage(path)

    def lock(self, path: str) -> OverlayFile:
        return self.open(path, create_size_bytes=0)

    def lock_owner(self, path: str) -> int | None:
        return self._below.lock_owner(path)

    def close(self) -> None:
        """Nothing that was written can be read afterwards."""
        self._pages.close()

    __del__ = close


def _merged(ranges: Iterable[Range]) -> list[Range]:
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif end > start:
            found.append((start, end))
    return found


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _is_directory(path: str) -> IsADirectoryError:
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
