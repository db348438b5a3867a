"""Compares the index with the log: the entries of each file with those that its messages call for, and the chains of
its slots, up to the first difference of each file. Some files differ without damage: the oldest still holds expired
messages, and after a crash some hold a message twice."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter

from rmqserver.core import ENTRY, INDEX_UNIT, OF_NO_KEY, OF_TAG, index_units, log_offsets_of, seconds_since
from rmqserver.store.disk.disk import Disk, File
from rmqserver.store.index.index_file import (
    HEADER,
    SLOT,
    Counts,
    IndexFile,
    IndexHeader,
    file_size_bytes,
)

_READ_BYTES = 1 << 20
_BLOCK_ENTRIES = 20_000
_SLOTS_PER_PAGE = 1024

Entry = tuple[int, int, int, int]
"""Hash, log offset, seconds since the file's begin, number of the entry before it in its slot."""


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


class CheckedIndexFile:
    """One file. ``problem`` is its first difference in words, and the byte where it is."""

    def __init__(self, found: FoundIndexFile, before: CheckedIndexFile | None, min_offset: int):
        self.found = found
        self.problem: tuple[str, int] | None = None
        header = found.header
        self._begin_ms = header.begin_timestamp_ms
        last_ms = before.found.header.end_timestamp_ms if before else 0
        self._apaches_first_seconds = max(0, self._begin_ms - last_ms) // 1000 if last_ms else 0
        """Apache's broker counts the seconds of the first entry from the end of the previous file."""
        self._ends_ms: dict[int, int] = {}
        """Store times of the first and the last message, as far as the log has them."""
        self._min_offset = min_offset
        self._newest = -1
        self._has_tags = True
        """Brokers up to 5.3.3 made no entries for tags."""
        self._number, self._block, self._block_number = 1, b"", 1
        self._slots = array("i", bytes(SLOT.size * found.slot_count))
        self._pages = bytearray(found.slot_count // _SLOTS_PER_PAGE + 1)
        self._used_count = 0

    def take_at_once(self, entries: bytes) -> bool:
        """Takes the next messages of the log if the file has exactly their entries. False if they are to be taken one
        by one."""
        found, log_offsets = self.found, log_offsets_of(entries)
        if not found.first_offset < log_offsets[0] <= log_offsets[-1] < found.last_offset:
            return False
        if not self._has_tags:
            entries = _without(entries, OF_TAG)
        room = found.entry_count + 1 - self._number
        units, used_count, done = index_units(
            entries, memoryview(self._slots), found.slot_count, self._pages, self._number, room, self._begin_ms
        )
        place = found.units_at + INDEX_UNIT.size * self._number
        if done < len(entries) or found.file.pread(len(units), place) != units:
            for key_hash, _, _, previous in reversed(list(INDEX_UNIT.iter_unpack(units))):
                self._slots[key_hash % found.slot_count] = previous
            return False
        self._number += len(units) // INDEX_UNIT.size
        self._used_count += used_count
        self._newest = log_offsets[-1]
        return True

    def take(self, log_offset: int, store_ms: int, hashes: Sequence[int], *, has_tag: bool) -> None:
        """Takes the next message of the log in this file."""
        found = self.found
        if log_offset in (found.first_offset, found.last_offset):
            self._ends_ms[log_offset] = store_ms
            if log_offset == found.first_offset:
                self._begin_ms = store_ms
        self._pass_over(log_offset)
        if self.problem is not None:
            return
        first, told = self._number, []
        seconds = seconds_since(self._begin_ms, store_ms)
        while (entry := self._next()) is not None and entry[1] == log_offset:
            if entry[2] != seconds and (self._number, entry[2]) != (1, self._apaches_first_seconds):
                self._differs("an entry has another time than its message", first)
            told.append(entry[0])
            self._advance(entry)
        if told != hashes and not self._is_usual(told, hashes, log_offset, has_tag=has_tag):
            self._differs(f"the entries are not those of the message at log offset {log_offset}", first)
        self._newest = log_offset

    def _is_usual(self, told: list[int], hashes: Sequence[int], log_offset: int, *, has_tag: bool) -> bool:
        """Whether there is none for the tag, the first or the last message has others in the file beside, or Apache's
        broker made them again: after a kill it begins with the message that the file ends with."""
        if told == [*hashes, *hashes]:
            return True
        for wanted in (hashes, hashes[:-1]) if has_tag else (hashes,):
            if told == wanted:
                self._has_tags = False
                return True
            count = len(told)
            if count and log_offset == self.found.first_offset and told == wanted[-count:]:
                return True
            if count and log_offset == self.found.last_offset and told == wanted[:count]:
                return True
        return False

    def _pass_over(self, end: int) -> None:
        """Takes entries before ``end`` that no message of the log calls for."""
        while self.problem is None and (entry := self._next()) is not None and entry[1] < end:
            if entry[1] >= self._min_offset and entry[1] > self._newest:
                what = f"an entry pointing to log offset {entry[1]}, where no message begins"
                self._differs(what, self._number)
            self._advance(entry)

    def _next(self) -> Entry | None:
        if self._number > self.found.entry_count:
            return None
        at = (self._number - self._block_number) * INDEX_UNIT.size
        if at >= len(self._block):
            count, self._block_number = min(_BLOCK_ENTRIES, self.found.entry_count + 1 - self._number), self._number
            data = self.found.file.pread(INDEX_UNIT.size * count, self.found.units_at + INDEX_UNIT.size * self._number)
            self._block, at = data.ljust(INDEX_UNIT.size * count, b"\0"), 0
        entry: Entry = INDEX_UNIT.unpack_from(self._block, at)
        return entry

    def _advance(self, entry: Entry) -> None:
        """Takes one entry, and checks that it leads to the one before it in its slot."""
        slot = entry[0] % self.found.slot_count
        if entry[3] != self._slots[slot]:
            self._differs("an entry does not lead to the one before it in its slot", self._number)
        self._used_count += not self._slots[slot]
        self._slots[slot] = self._number
        self._number += 1

    def _differs(self, what: str, number: int) -> None:
        self.problem = self.problem or (what, self.found.units_at + INDEX_UNIT.size * number)

    def finish(self) -> None:
        """Call it when all messages of the file were taken."""
        self._pass_over(1 << 63)
        if self.problem is None:
            self.problem = self._wrong_slot() or self._wrong_header()

    def _wrong_slot(self) -> tuple[str, int] | None:
        found = self.found
        for at in range(0, found.slot_count, _BLOCK_ENTRIES):
            wanted = self._slots[at : at + _BLOCK_ENTRIES]
            data = found.file.pread(SLOT.size * len(wanted), HEADER.size + SLOT.size * at)
            there = array("i", data.ljust(SLOT.size * len(wanted), b"\0"))
            if sys.byteorder == "little":
                there.byteswap()
            if there != wanted:
                number = at + next(n for n, newest in enumerate(there) if newest != wanted[n])
                return "a slot does not lead to its newest entry", HEADER.size + SLOT.size * number
        return None

    def _wrong_header(self) -> tuple[str, int] | None:
        found, told = self.found, self.found.told
        first, last = found.first_offset, found.last_offset
        really = IndexHeader(
            self._ends_ms.get(first, told.begin_timestamp_ms), self._ends_ms.get(last, told.end_timestamp_ms),
            first, last, self._used_count, found.entry_count + 1,
        )  # fmt: skip
        return None if told == really else ("its header is not that of its entries", 0)


def _without(entries: bytes, kind: int) -> bytes:
    """The entries of other kinds."""
    if kind not in memoryview(entries).cast("I")[1::6].tolist():
        return entries
    return b"".join(ENTRY.pack(*entry) for entry in ENTRY.iter_unpack(entries) if entry[1] != kind)


class IndexCheck:
    """``take`` the results of ``QueueCheck.take``, in log order, then ``finish``. ``outside_count`` counts messages
    before the first entry and between two files, ``behind_count`` those behind the last entry; ``outside_at`` and
    ``behind`` are where they are."""

    def __init__(self, paths: Sequence[str], counts: Counts, disk: Disk, min_offset: int):
        self.files: list[CheckedIndexFile] = []
        self.outside_count = self.behind_count = 0
        self.outside_at = -1
        self.behind = (-1, -1)
        for path in paths:
            if disk.file_size(path) != file_size_bytes(*counts):
                continue
            found = FoundIndexFile(disk.open(path, read_only=True), *counts)
            if found.entry_count:
                self.files.append(CheckedIndexFile(found, self.files[-1] if self.files else None, min_offset))
        self._at = 0

    def take(self, entries: bytes) -> None:
        keyed = _without(entries, OF_NO_KEY)
        file = self.files[self._at] if self._at < len(self.files) else None
        if not keyed or (file is not None and file.problem is None and file.take_at_once(keyed)):
            return
        for (log_offset, store_ms), of_message in groupby(ENTRY.iter_unpack(keyed), itemgetter(2, 3)):
            hashes, kinds, _, _ = zip(*of_message, strict=True)
            self._take(log_offset, store_ms, list(hashes), has_tag=OF_TAG in kinds)

    def _take(self, log_offset: int, store_ms: int, hashes: list[int], *, has_tag: bool) -> None:
        files = self.files
        while self._at < len(files) and log_offset > files[self._at].found.last_offset:
            self._finish_one()
        if self._at == len(files):
            self.behind_count += 1
            self.behind = (log_offset if self.behind[0] < 0 else self.behind[0], log_offset)
        elif log_offset < files[self._at].found.first_offset:
            self.outside_count += 1
            self.outside_at = log_offset if self.outside_at < 0 else self.outside_at
        else:
            for file in files[self._at : self._at + 2]:
                if file.problem is None and file.found.first_offset <= log_offset:
                    file.take(log_offset, store_ms, hashes, has_tag=has_tag)

    def finish(self) -> None:
        """Call it at the end of the log."""
        while self._at < len(self.files):
            self._finish_one()

    def _finish_one(self) -> None:
        self.files[self._at].finish()
        self._at += 1
