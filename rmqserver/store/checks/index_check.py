"""Compares the index with the log: its entries, all files one behind the other, with those that the messages call for,
and the chains of each file's slots. The first difference of a file counts. Some differences are no damage: the oldest
file still holds expired messages, brokers up to 5.3.3 made no entries for tags, and after a kill Apache's broker makes
those of the newest message again."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from rmqserver.core import ENTRY, INDEX_UNIT, OF_NO_KEY, OF_TAG, index_units, seconds_since
from rmqserver.store.disk.disk import Disk
from rmqserver.store.index.index_file import HEADER, SLOT, Counts, IndexFile, IndexHeader, file_size_bytes

_BLOCK_ENTRIES = 20_000
_SLOTS_PER_PAGE = 1024
_NO_UNIT = bytes(INDEX_UNIT.size)

Entry = tuple[int, int, int, int]
"""Hash, log offset, seconds since the file's begin, number of the entry before it in its slot."""


class CheckedIndexFile:
    """One file, read entry by entry. ``problem`` is its first difference in words, and the byte where it is."""

    def __init__(self, found: IndexFile, before: CheckedIndexFile | None):
        self.found = found
        self.problem: tuple[str, int] | None = None
        self.entry_count = 0
        """The entries before ``next``."""
        self._told = IndexHeader(*HEADER.unpack(found.file.pread(HEADER.size, 0)))
        """The header as it is, even if it cannot be right."""
        last_ms = before.found.header.end_timestamp_ms if before else 0
        self._apaches_first_seconds = max(0, self._told.begin_timestamp_ms - last_ms) // 1000 if last_ms else 0
        """Apache's broker counts the seconds of the first entry from the end of the previous file."""
        told = self._told
        self._really = IndexHeader(told.begin_timestamp_ms, told.end_timestamp_ms)
        """What the header should be, up to here."""
        self._units_at = file_size_bytes(found.slot_count, 0)
        self._block, self._block_number = b"", 1
        self._slots = array("i", bytes(SLOT.size * found.slot_count))
        self._pages = bytearray(found.slot_count // _SLOTS_PER_PAGE + 1)

    def next(self) -> Entry | None:
        """The next entry; None behind the last."""
        number = self.entry_count + 1
        at = (number - self._block_number) * INDEX_UNIT.size
        if at >= len(self._block):
            size = INDEX_UNIT.size * min(_BLOCK_ENTRIES, self.found.unit_count - number)
            self._block, self._block_number, at = self.found.file.pread(size, self._place(number)), number, 0
        unit = self._block[at : at + INDEX_UNIT.size]
        if len(unit) < INDEX_UNIT.size or unit == _NO_UNIT:
            return None
        entry: Entry = INDEX_UNIT.unpack(unit)
        return entry

    def advance(self, entry: Entry, store_ms: int | None) -> None:
        """Goes past the next entry, of the message stored at that time (None: it is not in the log), and checks the
        time and that it leads to the entry before it in its slot."""
        really, slot, number = self._really, entry[0] % self.found.slot_count, self.entry_count + 1
        if number == 1:
            really.begin_log_offset = entry[1]
            really.begin_timestamp_ms = really.begin_timestamp_ms if store_ms is None else store_ms
        if store_ms is not None:
            seconds = seconds_since(really.begin_timestamp_ms, store_ms)
            if entry[2] != seconds and (number, entry[2]) != (1, self._apaches_first_seconds):
                self.differs("an entry has another time than its message", number)
        if entry[3] != self._slots[slot]:
            self.differs("an entry does not lead to the one before it in its slot", number)
        really.used_slot_count += not self._slots[slot]
        really.end_log_offset = entry[1]
        really.end_timestamp_ms = self._told.end_timestamp_ms if store_ms is None else store_ms
        self._slots[slot] = self.entry_count = number

    def take_at_once(self, entries: bytes) -> bool:
        """Goes past the entries of further messages, if these are just the next. False if they are to be taken one by
        one."""
        found, really, first = self.found, self._really, self.entry_count + 1
        if first == 1 or self.problem is not None:
            return False
        units, used_count, done = index_units(
            entries, memoryview(self._slots), found.slot_count, self._pages, first, found.unit_count - first,
            really.begin_timestamp_ms,
        )  # fmt: skip
        if done < len(entries) or found.file.pread(len(units), self._place(first)) != units:
            for key_hash, _, _, previous in reversed(list(INDEX_UNIT.iter_unpack(units))):
                self._slots[key_hash % found.slot_count] = previous
            return False
        self.entry_count += len(units) // INDEX_UNIT.size
        really.used_slot_count += used_count
        _, _, really.end_log_offset, really.end_timestamp_ms = ENTRY.unpack_from(entries, len(entries) - ENTRY.size)
        return True

    def differs(self, what: str, number: int) -> None:
        self.problem = self.problem or (what, self._place(number))

    def _place(self, number: int) -> int:
        return self._units_at + INDEX_UNIT.size * number

    def finish(self) -> None:
        """Call it behind the last entry: compares slots and header."""
        found = self.found
        there = array("i", found.file.pread(SLOT.size * found.slot_count, HEADER.size))
        if sys.byteorder == "little":
            there.byteswap()
        self._really.next_unit = self.entry_count + 1
        if there != self._slots:
            number = next(n for n, newest in enumerate(there) if newest != self._slots[n])
            self.problem = self.problem or (
                "a slot does not lead to its newest entry", HEADER.size + SLOT.size * number
            )  # fmt: skip
        elif self._told != self._really:
            self.problem = self.problem or ("its header is not that of its entries", 0)


def _without(entries: bytes, kind: int) -> bytes:
    """The entries of other kinds."""
    if kind not in memoryview(entries).cast("I")[1::6].tolist():
        return entries
    return b"".join(ENTRY.pack(*entry) for entry in ENTRY.iter_unpack(entries) if entry[1] != kind)


class IndexCheck:
    """``take`` the entries that the records of the log call for, in its order, then ``finish``. ``outside_count``
    counts messages before the first entry and between two files, ``behind_count`` those behind the last entry;
    ``outside_at`` and ``behind`` are where they are."""

    def __init__(self, paths: Sequence[str], counts: Counts, disk: Disk, min_offset: int):
        self.files: list[CheckedIndexFile] = []
        self.outside_count = self.behind_count = 0
        self.outside_at = -1
        self.behind = (-1, -1)
        for path in paths:
            if disk.file_size(path) != file_size_bytes(*counts):
                continue
            found = IndexFile(disk.open(path, read_only=True), *counts)
            file = CheckedIndexFile(found, self.files[-1] if self.files else None)
            if file.next() is not None:
                self.files.append(file)
        self._left = self.files[::-1]
        """The file that is compared now is the last."""
        self._min_offset = min_offset
        self._has_lost_place = False
        """A file was left at its first difference: messages before the next one's entries may have theirs in it."""

    def take(self, entries: bytes) -> None:
        keyed = _without(entries, OF_NO_KEY)
        if not keyed or (self._left and self._left[-1].take_at_once(keyed)):
            return
        for (log_offset, store_ms), of_message in groupby(ENTRY.iter_unpack(keyed), itemgetter(2, 3)):
            hashes, kinds, _, _ = zip(*of_message, strict=True)
            self._take(log_offset, store_ms, list(hashes), has_tag=OF_TAG in kinds)

    def _take(self, log_offset: int, store_ms: int, hashes: list[int], *, has_tag: bool) -> None:
        self._pass(log_offset)
        told: list[int] = []
        is_first = bool(self._left) and self._left[-1] is self.files[0] and not self.files[0].entry_count
        while (file := self._file()) is not None and (entry := file.next()) is not None and entry[1] == log_offset:
            told.append(entry[0])
            file.advance(entry, store_ms)
        untagged = hashes[:-1] if has_tag else hashes
        if told:
            self._has_lost_place = False
            is_end = is_first or not self._left
            if not any(_is_usual(told, wanted, is_end=is_end) for wanted in (hashes, untagged)):
                self._differ(log_offset)
        elif file is not None and file.entry_count:
            if untagged:
                self._differ(log_offset)
        elif file is not None and not self._has_lost_place:
            self.outside_count += 1
            self.outside_at = log_offset if self.outside_at < 0 else self.outside_at
        elif not self._has_lost_place:
            self.behind_count += 1
            self.behind = (log_offset if self.behind[0] < 0 else self.behind[0], log_offset)

    def _file(self) -> CheckedIndexFile | None:
        """The first file that has entries left."""
        while self._left and self._left[-1].next() is None:
            file = self._left.pop()
            file.finish()
            self._has_lost_place = file.problem is not None
        return self._left[-1] if self._left else None

    def _pass(self, end: int) -> None:
        """Goes past entries before ``end`` that no message of the log calls for: there are some of expired ones."""
        while (file := self._file()) is not None and (entry := file.next()) is not None and entry[1] < end:
            if entry[1] < self._min_offset:
                file.advance(entry, None)
            else:
                file.differs(
                    f"an entry pointing to log offset {entry[1]}, where no message begins", file.entry_count + 1
                )
                self._leave()

    def _differ(self, log_offset: int) -> None:
        file = self._left[-1] if self._left else self.files[-1]
        file.differs(f"the entries are not those of the message at log offset {log_offset}", file.entry_count + 1)
        self._leave()

    def _leave(self) -> None:
        """Goes on with the next file."""
        if self._left:
            self._left.pop()
        self._has_lost_place = True

    def finish(self) -> None:
        """Call it at the end of the log."""
        self._pass(1 << 63)


def _is_usual(told: list[int], hashes: list[int], *, is_end: bool) -> bool:
    """Whether these are a message's entries, or were begun, and made again after a kill, or at an end of the index lack
    those in a file that is gone or that a kill left out."""
    count = len(hashes)
    if told[-count:] == hashes:
        return told[:-count] == hashes[: len(told) - count]
    return is_end and told in (hashes[: len(told)], hashes[-len(told) :])
