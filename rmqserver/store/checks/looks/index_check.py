"""Compares the index with the log: the code that writes index files rebuilds them in memory, and each write is compared
with the file. Only files that differ are examined entry by entry (``index_diff.py``)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from rmqserver.store.disk.disk import Disk, File, is_empty
from rmqserver.store.index.file import (
    HEADER,
    INDEX_UNIT,
    IndexFile,
    IndexHeader,
    LiveIndexFile,
    entries,
    file_size_bytes,
)
from rmqserver.store.index.found_counts import Counts
from rmqserver.store.queues.consume_queues import NO_TAG
from rmqserver.store.queues.round import IndexItem

_READ_BYTES = 1 << 20


class FoundIndexFile(IndexFile):
    """A file as it is. ``first_offset``, ``last_offset`` (log offsets of its first and last entry) and ``entry_count``
    come from the entries, whatever the header says."""

    def __init__(self, file: File, slot_count: int, unit_count: int):
        super().__init__(file, slot_count, unit_count)
        self.told = IndexHeader(*HEADER.unpack(file.pread(HEADER.size, 0)))
        """The header as it is, even if it cannot be right."""
        self.units_at = file_size_bytes(slot_count, 0)
        self.entry_count = self._entry_count()
        last = self.entry_count
        told = self.header.begin_log_offset, self.header.end_log_offset
        self.first_offset = (
            _agreed(self.entry(1)[1], told[0], lambda it: it <= self.entry(2)[1]) if last > 1 else told[0]
        )
        self.last_offset = _agreed(self.entry(last)[1], told[1], lambda it: it >= self.entry(last - 1)[1])

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Hash, log offset, seconds since the file's begin, and the number of the entry before it in its slot."""
        found: tuple[int, int, int, int] = INDEX_UNIT.unpack(self.unit(number).ljust(INDEX_UNIT.size, b"\0"))
        return found

    def count_at(self, log_offset: int) -> int:
        """How many entries the message at ``log_offset`` has; searches the entries, which are in log order."""
        numbers = range(1, self.entry_count + 1)
        first = bisect_left(numbers, log_offset, key=lambda number: self.entry(number)[1])
        return bisect_right(numbers, log_offset, key=lambda number: self.entry(number)[1]) - first

    def _entry_count(self) -> int:
        told = self.header.next_unit - 1
        if 0 <= told < self.unit_count:
            is_last = told + 1 >= self.unit_count or not any(self.unit(told + 1))
            if is_last and (told == 0 or any(self.unit(told))):
                return told
        found, at, size = 0, self.units_at, self.file.size()
        while (at := self.file.next_data(at)) < size:
            data = self.file.pread(_READ_BYTES, at)
            if kept := len(data.rstrip(b"\0")):
                found = (at + kept - 1 - self.units_at) // INDEX_UNIT.size
            at += len(data)
        return min(found, self.unit_count - 1)


def _agreed(found: int, told: int, is_right: Callable[[int], bool]) -> int:
    """The value of an entry, or, if that cannot be right, the header's."""
    return told if not is_right(found) and is_right(told) else found


class _Comparison:
    """A ``File`` for rebuilding the index: compares everything written with the existing file."""

    def __init__(self, found: FoundIndexFile, first_seconds: int):
        self.path = found.path
        self.is_equal = True
        self._found = found
        self._first_seconds_at = found.units_at + INDEX_UNIT.size + 12
        self._first_seconds = first_seconds
        self._slots_end = found.units_at
        self._slots_compared: list[tuple[int, int]] = []

    def size(self) -> int:
        return self._found.file.size()

    def pread(self, size_bytes: int, at: int) -> bytes:
        return bytes(size_bytes)

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        wanted = bytes(data)
        there = self._found.file.pread(len(wanted), at)
        if at <= self._first_seconds_at < at + len(wanted):
            # Apache's broker counts the first entry's seconds from the end of the previous file.
            start = self._first_seconds_at - at
            if int.from_bytes(there[start : start + 4], "big") == self._first_seconds:
                wanted = wanted[:start] + there[start : start + 4] + wanted[start + 4 :]
        if HEADER.size <= at < self._slots_end:
            self._slots_compared.append((at, at + len(wanted)))
        self.is_equal = self.is_equal and wanted == there

    def fdatasync(self) -> None:
        pass

    def next_data(self, at: int) -> int:
        return at

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        return None

    def pread_cached_into(self, memory: memoryview, at: int) -> bool:
        return False

    def pread_direct(self, memory: memoryview, at: int) -> int:
        raise NotImplementedError

    def allocate(self, at: int, size_bytes: int) -> None:
        pass

    def pwrite_direct(self, data: memoryview, at: int) -> None:
        self.pwrite(data, at)

    def truncate(self, size_bytes: int) -> None:
        pass

    def close(self) -> None:
        pass

    def are_other_slots_empty(self) -> bool:
        at = HEADER.size
        for start, end in [*sorted(self._slots_compared), (self._slots_end, self._slots_end)]:
            if not is_empty(self._found.file, at, start):
                return False
            at = end
        return True


class CheckedIndexFile:
    """One file, and how far it was rebuilt. The previous file, which was full, holds the first ``skipped_count``
    entries of its first message; this file holds the next ``ending_count`` entries of its last one. ``has_tags``:
    messages have an entry for their tag; brokers up to 5.3.3 made none."""

    def __init__(self, found: FoundIndexFile, before: CheckedIndexFile | None):
        self.found = found
        self.is_equal = False
        """Known once the log is read."""
        self.has_tags: bool | None = None
        """Known from the first message that has a tag."""
        self.ending_count = 0
        while self.ending_count < found.entry_count and self._ends_there(found.entry_count - self.ending_count):
            self.ending_count += 1
        is_split = before is not None and before.found.last_offset == found.first_offset
        self.skipped_count = before.ending_count if before is not None and is_split else 0
        first_ms, last_ms = found.header.begin_timestamp_ms, before.found.header.end_timestamp_ms if before else 0
        self.first_seconds = max(0, first_ms - last_ms) // 1000 if last_ms else 0
        """The seconds that Apache's broker writes into the first entry: it counts from the end of the previous file."""

    def _ends_there(self, number: int) -> bool:
        return self.found.entry(number)[1] == self.found.last_offset

    def learn(self, items: Sequence[IndexItem]) -> None:
        """Finds out whether there are entries for tags."""
        for item in items:
            if item[5] != NO_TAG and self.found.first_offset < item[1] < self.found.last_offset:
                self.has_tags = self.found.count_at(item[1]) == len(entries([item])[0])
                return

    def fitted(self, item: IndexItem) -> IndexItem:
        """The item with only those of its entries that belong in this file."""
        if self.has_tags is False:
            item = (*item[:5], NO_TAG)
        start = self.skipped_count if item[1] == self.found.first_offset else 0
        stop = start + self.ending_count if item[1] == self.found.last_offset else None
        return item if not start and stop is None else _trimmed(item, start, stop)


class _Build:
    """A file that is being rebuilt next to the existing one."""

    def __init__(self, checked: CheckedIndexFile, counts: Counts):
        self.checked = checked
        self._comparison = _Comparison(checked.found, checked.first_seconds)
        self._live = LiveIndexFile(self._comparison, *counts)

    def put(self, items: list[IndexItem]) -> None:
        """Adds messages of this file, in order."""
        checked, found = self.checked, self.checked.found
        if not items or not self._comparison.is_equal:
            return
        if checked.has_tags is None:
            checked.learn(items)
        is_edge = items[0][1] == found.first_offset or items[-1][1] == found.last_offset
        if is_edge or checked.has_tags is False:
            items = [checked.fitted(item) for item in items]
        if self._live.put(items) < len(items):
            self._comparison.is_equal = False
        self._live.write_ahead()

    def finish(self) -> None:
        """Call it when all messages of the file were put."""
        comparison = self._comparison
        if comparison.is_equal and (snapshot := self._live.snapshot()) is not None:
            snapshot.write()
        self.checked.is_equal = (
            comparison.is_equal
            and self._live.header.next_unit == self.checked.found.entry_count + 1
            and comparison.are_other_slots_empty()
        )


class IndexCheck:
    """``take`` the results of ``QueueCheck.take``, in log order. A file whose messages are not all in the log does not
    count as equal."""

    def __init__(self, paths: Sequence[str], counts: Counts, disk: Disk):
        self.files: list[CheckedIndexFile] = []
        self.before_count = self.between_count = self.behind_count = 0
        """Messages before the first file's first entry, between files, and behind the last file's last entry."""
        self.behind: tuple[int, int] | None = None
        """Log offsets of the first and the last message behind."""
        self._counts = counts
        for path in paths:
            if disk.file_size(path) != file_size_bytes(*counts):
                continue
            found = FoundIndexFile(disk.open(path, read_only=True), *counts)
            if found.entry_count:
                self.files.append(CheckedIndexFile(found, self.files[-1] if self.files else None))
        self._next = 0
        self._build: _Build | None = None

    def take(self, items: list[IndexItem]) -> None:
        while items:
            build = self._build or self._start()
            if build is None:
                items = _keyed(items)
                self.behind_count += len(items)
                if items:
                    self.behind = self.behind[0] if self.behind else items[0][1], items[-1][1]
                return
            found = build.checked.found
            before = sum(item[1] < found.first_offset for item in items) if items[0][1] < found.first_offset else 0
            if before and self._next == 1:
                self.before_count += len(_keyed(items[:before]))
            elif before:
                self.between_count += len(_keyed(items[:before]))
            end = len(items)
            if items[-1][1] >= found.last_offset:
                end = sum(item[1] <= found.last_offset for item in items)
            build.put(items[before:end])
            if items[-1][1] < found.last_offset:
                return
            self._finish(build)
            is_split = self._next < len(self.files) and self.files[self._next].skipped_count
            items = items[end - 1 if is_split and end else end :]

    def _start(self) -> _Build | None:
        """Starts on the next file; None behind the last one."""
        if self._next == len(self.files):
            return None
        self._build = _Build(self.files[self._next], self._counts)
        self._next += 1
        return self._build

    def _finish(self, build: _Build) -> None:
        build.finish()
        self._build = None


def _keyed(items: list[IndexItem]) -> list[IndexItem]:
    """The items that have entries."""
    return [item for item in items if item[3] or item[4] or item[5] != NO_TAG]


def _trimmed(item: IndexItem, start: int, stop: int | None) -> IndexItem:
    """The item with only the entries from ``start`` to ``stop``, in the order unique key, keys, tag."""
    prefix_hash, log_offset, store_ms, unique_key, keys, tag_hash = item
    parts: list[tuple[str, bytes]] = [("unique", unique_key)] if unique_key else []
    parts += [("key", key) for key in keys.split(b" ") if key]
    parts += [("tag", b"")] if tag_hash != NO_TAG else []
    kept = parts[start:stop]
    return (
        prefix_hash, log_offset, store_ms,
        b"".join(value for kind, value in kept if kind == "unique"),
        b" ".join(value for kind, value in kept if kind == "key"),
        tag_hash if ("tag", b"") in kept else NO_TAG,
    )  # fmt: skip
