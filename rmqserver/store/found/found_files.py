"""The files of one stream as they are: what ``SegmentedFile`` would refuse is noted, and the rest can be read."""

from __future__ import annotations

from dataclasses import dataclass

from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.segments import FileCache, SegmentedFile, stream_names
from rmqserver.store.found.survey import Survey

FILES_OPEN_MAX = 16
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OddFile:
    """A file that a broker would not expect. ``is_gap``: the file before it is missing."""

    name: str
    size_bytes: int = 0
    is_stray: bool = False
    is_gap: bool = False


class FoundFiles(SegmentedFile):
    """The files of one stream. A read returns nothing where a file, or a part of it, is missing. OSError of the
    disk."""

    __slots__ = ("odd",)

    def __init__(self, directory: str, file_size_bytes: int, disk: Disk, cache: FileCache):
        super().__init__(directory, file_size_bytes, disk, cache)
        self.odd: list[OddFile] = []
        names = stream_names(disk, directory)
        for name in disk.listdir(directory) if disk.is_directory(directory) else []:
            if name not in names and disk.is_file(f"{directory}/{name}"):
                self.odd.append(OddFile(name, disk.file_size(f"{directory}/{name}"), is_stray=True))
        expected = None
        for name in names:
            base, size = int(name), disk.file_size(f"{directory}/{name}")
            if base % file_size_bytes:
                self.odd.append(OddFile(name, size, is_stray=True))
                continue
            if expected is not None and base != expected:
                self.odd.append(OddFile(name, size, is_gap=True))
            if size != file_size_bytes:
                self.odd.append(OddFile(name, size))
            self.bases.append(base)
            expected = base + file_size_bytes

    def read(self, offset: int, size_bytes: int, *, cached_only: bool = False) -> bytes:
        try:
            return super().read(offset, size_bytes, cached_only=cached_only)
        except FileNotFoundError:
            return b""

    def span(self, offset: int, size_bytes: int) -> bytes:
        """As ``read``, but across the ends of files; zeros where there is nothing."""
        parts = []
        while size_bytes > 0:
            size = min(size_bytes, self.base_of(offset) + self.file_size_bytes - offset)
            parts.append(self.read(offset, size).ljust(size, b"\0"))
            offset += size
            size_bytes -= size
        return b"".join(parts) if len(parts) != 1 else parts[0]


def files_of(found: Survey, directory: str, file_size_bytes: int) -> FoundFiles:
    """The files of one stream of a store."""
    cache = FileCache(found.disk, FILES_OPEN_MAX, read_only=True)
    return FoundFiles(directory, file_size_bytes, found.disk, cache)


def commit_log_of(found: Survey) -> FoundFiles:
    return files_of(found, found.paths.commit_log, found.options.commit_log_file_size_bytes)


def data_end(segments: SegmentedFile, start: int) -> int:
    """Offset behind the last byte from ``start`` on that is not zero; ``start`` if there is none."""
    found = start
    for base in segments.bases:
        if base + segments.file_size_bytes <= start:
            continue
        try:
            file = segments.file(base)
        except FileNotFoundError:
            continue
        at, size = max(start - base, 0), file.size()
        while (at := file.next_data(at)) < size:
            data = file.pread(_READ_BYTES, at)
            if kept := data.rstrip(b"\0"):
                found = base + at + len(kept)
            at += len(data)
    return found
