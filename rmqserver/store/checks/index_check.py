"""Compares the index with the log: the entries of all files, one behind the other, with those that the messages call
for, and each file's chains, slots and header with its entries. Some differences are no damage: the oldest file still
holds expired messages, brokers up to 5.3.3 made no entries for tags, and after a kill Apache's broker makes those of
the newest message again."""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat, takewhile
from itertools import count as numbering
from operator import eq, itemgetter

from rmqproto.wording import counted
from rmqserver.core import ENTRY, INDEX_UNIT, OF_NO_KEY, OF_TAG, seconds_since
from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.disk.disk import Disk
from rmqserver.store.index.index_file import HEADER, SLOT, Counts, IndexFile, IndexHeader, file_size_bytes

MADE_ANEW = "makes it anew from the log"
MISSED = "leaves it: look-ups by key miss messages"

_BLOCK_ENTRIES = 20_000
_NO_UNIT = (0, 0, 0, 0)
_WRONG_HEADER = "its header is not that of its entries"


IndexEntry = tuple[int, int, int, int, int]
"""Log offset, key hash, seconds since the file's begin, number in the file, from 1 on, and which file. A plain tuple
of numbers: there may be a hundred million, and these are no work for the garbage collector."""


Difference = tuple[str, int]
"""In words, and the byte where it is."""


class CheckedIndexFile:
    def __init__(self, found: IndexFile, at: int, end_before_ms: int):
        """``at`` is its place among the files; ``end_before_ms`` the end time of the one before it, 0 if there is
        none."""
        self.found = found
        self._at = at
        self._from_log: Difference | None = None
        self._behind: Difference | None = None
        """In the file itself, behind all entries that were read, which are compared with the log later."""
        self.entry_count = 0
        """The entries that were looked at."""
        self.told = IndexHeader(*HEADER.unpack(found.file.pread(HEADER.size, 0)))
        """The header as it is, even if it cannot be right."""
        self.newest_ms = self.told.end_timestamp_ms
        # Apache's broker counts the seconds of the first entry from the end of the previous file.
        self._first_seconds = max(0, self.told.begin_timestamp_ms - end_before_ms) // 1000 if end_before_ms else 0

    @property
    def problem(self) -> Difference | None:
        """The file's first difference."""
        return self._from_log or self._behind

    def differs(self, what: str, number: int = 0) -> None:
        """From the log, at the entry of that number; at the header if it is 0."""
        self._from_log = self._from_log or self._difference(what, number)

    def _difference(self, what: str, number: int = 0) -> Difference:
        return what, file_size_bytes(self.found.slot_count, number) if number else 0

    def entries(self) -> Iterator[list[IndexEntry]]:
        """In their order, many at a time, up to the first that does not follow from those before it."""
        found, slot_count, at = self.found, self.found.slot_count, self._at
        slots = array("i", bytes(SLOT.size * slot_count))
        number = used_slot_count = first_offset = log_offset = 0
        for first in range(1, self.found.unit_count, _BLOCK_ENTRIES):
            block: list[IndexEntry] = []
            for key_hash, log_offset, seconds, previous in self._units(first):
                number += 1
                slot = key_hash % slot_count
                if previous != slots[slot]:
                    self._behind = self._difference("an entry does not lead to the one before it in its slot", number)
                    while block and block[-1][0] == log_offset:  # its message cannot be compared
                        block.pop()
                    break
                first_offset = first_offset if number > 1 else log_offset
                used_slot_count += not previous
                slots[slot] = self.entry_count = number
                block.append((log_offset, key_hash, seconds, number, at))
            yield block
            if len(block) < _BLOCK_ENTRIES:
                break
        if number > self.entry_count:
            return
        there = array("i", found.file.pread(SLOT.size * slot_count, HEADER.size))
        if sys.byteorder == "little":
            there.byteswap()
        told = self.told
        times = told.begin_timestamp_ms, told.end_timestamp_ms  # compared with those of the messages
        if there != slots:
            self._behind = self._difference("a slot does not lead to its newest entry")
        elif told != IndexHeader(*times, first_offset, log_offset, used_slot_count, number + 1):
            self._behind = self._difference(_WRONG_HEADER)

    def _units(self, first: int) -> Iterator[tuple[int, ...]]:
        """From that number on, at most _BLOCK_ENTRIES."""
        count = min(_BLOCK_ENTRIES, self.found.unit_count - first)
        data = self.found.file.pread(INDEX_UNIT.size * count, file_size_bytes(self.found.slot_count, first))
        return takewhile(_NO_UNIT.__ne__, INDEX_UNIT.iter_unpack(data))

    def check_times(self, entries: list[IndexEntry], store_ms: int) -> None:
        """Of those of one message. The newest is compared with the header at the end."""
        begin_ms, self.newest_ms = self.told.begin_timestamp_ms, store_ms
        wanted = seconds_since(begin_ms, store_ms)
        for _, _, seconds, number, _ in entries:
            if number == 1 and store_ms != begin_ms:
                self.differs(_WRONG_HEADER)
            if seconds != wanted and not (number == 1 and seconds == self._first_seconds):
                self.differs("an entry has another time than its message", number)


@dataclass(slots=True)
class MissingEntries:
    """Messages that have no entries, and where the first and the last of them are."""

    count: int = 0
    first_log_offset: int = -1
    last_log_offset: int = -1


class IndexCheck:
    """``take`` the entries that the records of the log call for, in its order, then ``finish``. Missing entries are
    ``outside``, before the first file's or between those of two files, or ``behind`` the last one's."""

    def __init__(self, paths: Sequence[str], counts: Counts, disk: Disk, min_offset: int):
        self.files: list[CheckedIndexFile] = []
        self.outside, self.behind = MissingEntries(), MissingEntries()
        self._min_offset = min_offset
        for path in paths:
            if disk.file_size(path) == file_size_bytes(*counts):
                found = IndexFile(disk.open(path, read_only=True), *counts)
                if found.entry(1) is not None:
                    end_before_ms = self.files[-1].found.header.end_timestamp_ms if self.files else 0
                    self.files.append(CheckedIndexFile(found, len(self.files), end_before_ms))
        self._blocks = chain.from_iterable(file.entries() for file in self.files)
        self._ahead: deque[IndexEntry] = deque()
        """The next entries; empty behind the last."""
        self._read(1)

    def _read(self, count: int) -> None:
        """Reads on until there are that many ahead, or all that are left."""
        while len(self._ahead) < count and (block := next(self._blocks, None)) is not None:
            self._ahead.extend(block)

    def _next(self) -> list[IndexEntry]:
        """Takes the entries of the next message that has some."""
        entries: list[IndexEntry] = []
        while self._ahead and (not entries or self._ahead[0][0] == entries[0][0]):
            entries.append(self._ahead.popleft())
            self._read(1)
        return entries

    def _has_lost_place(self) -> bool:
        """Whether the file before was left at its first difference: the next messages may have entries in it."""
        at = self._ahead[0][4] if self._ahead else len(self.files)
        return at > 0 and self.files[at - 1].problem is not None

    def take(self, entries: bytes) -> None:
        if entries and not self._take_all(entries):
            for (log_offset, store_ms), of_message in groupby(ENTRY.iter_unpack(entries), itemgetter(2, 3)):
                found = list(of_message)
                if found[0][1] != OF_NO_KEY:
                    self._take(log_offset, store_ms, [entry[0] for entry in found], has_tag=found[-1][1] == OF_TAG)

    def _take_all(self, entries: bytes) -> bool:
        """As ``_take`` for each message, if just these are next, all in one file and behind its first."""
        small, large = memoryview(entries).cast("I"), memoryview(entries).cast("q")
        log_offsets, times = large[1::3].tolist(), large[2::3].tolist()
        count = len(times)
        self._read(count + 1)
        _, _, _, number, at = self._ahead[0] if count < len(self._ahead) else (0, 0, 0, 1, 0)
        if number == 1 or self._ahead[count][0] == log_offsets[-1] or OF_NO_KEY in small[1::6].tolist():
            return False
        begin_ms = self.files[at].told.begin_timestamp_ms
        seconds = {store_ms: seconds_since(begin_ms, store_ms) for store_ms in set(times)}
        wanted = zip(log_offsets, small[0::6].tolist(), map(seconds.__getitem__, times), numbering(number), repeat(at))
        if not all(map(eq, wanted, self._ahead)):
            return False
        for _ in times:
            self._ahead.popleft()
        self.files[at].newest_ms = times[-1]
        return True

    def _take(self, log_offset: int, store_ms: int, hashes: list[int], *, has_tag: bool) -> None:
        if self._ahead and self._ahead[0][0] < log_offset:
            self._pass(log_offset)
        untagged = hashes[:-1] if has_tag else hashes
        if not self._ahead or self._ahead[0][0] > log_offset:
            if self._ahead and self._ahead[0][3] > 1:
                if untagged:
                    self._leave(f"there are none for the message at log offset {log_offset}")
            elif not self._has_lost_place():
                missing = self.outside if self._ahead else self.behind
                missing.first_log_offset = missing.first_log_offset if missing.count else log_offset
                missing.last_log_offset = log_offset
                missing.count += 1
            return
        _, _, _, number, at = self._ahead[0]
        is_first = number == 1 and (at == 0 or self._has_lost_place())
        told = self._next()
        _, _, _, number, at = told[-1]
        for each, entries in groupby(told, itemgetter(4)):  # Apache's broker fills a file with the first of them
            self.files[each].check_times(list(entries), store_ms)
        told_hashes = [entry[1] for entry in told]
        if told_hashes != hashes:
            # After a kill Apache's broker makes them again. At an end of the index, some may be in a file that is gone.
            found, wanted, is_end = set(told_hashes), set(hashes), is_first or not self._ahead
            if found not in (wanted, set(untagged)) and not (is_end and found <= wanted):
                self.files[at].differs(f"the entries are not those of the message at log offset {log_offset}", number)

    def _pass(self, end: int) -> None:
        """Goes past entries before ``end`` that no message of the log calls for: there are some of expired ones."""
        while self._ahead and (log_offset := self._ahead[0][0]) < end:
            if log_offset < self._min_offset:
                self._next()
            else:
                self._leave(f"an entry pointing to log offset {log_offset}, where no message begins")

    def _leave(self, what: str) -> None:
        """Goes on with the next file: this one differs where the next entries are."""
        _, _, _, number, at = self._ahead[0]
        self.files[at].differs(what, number)
        while self._ahead and self._ahead[0][4] == at:
            self._next()

    def finish(self) -> None:
        """Call it at the end of the log."""
        self._pass(1 << 63)
        for file in self.files:
            if file.problem is None and file.newest_ms != file.told.end_timestamp_ms:
                file.differs(_WRONG_HEADER)


def add_all(checked: CheckedStore, index: IndexCheck | None) -> None:
    if not checked.found.has_index_counts:
        checked.add(
            Severity.WARNING if checked.found.is_clean else Severity.NOTE, FindingKind.INDEX_COUNTS,
            "nothing tells how many slots these files have: not checked", "index",
            becomes="takes the counts of its configuration",
        )  # fmt: skip
    _add_sizes(checked)
    if index is None:
        return
    for file in index.files:
        if file.problem is not None:
            _add_difference(checked, file, *file.problem)
    _add_missing(checked, index)


def _add_sizes(checked: CheckedStore) -> None:
    disk, options = checked.found.disk, checked.found.options
    expected = file_size_bytes(options.index_slot_count, options.index_unit_count)
    for path in checked.found.paths.index_paths() if checked.found.has_index_counts else ():
        size = disk.file_size(path)
        if size and size != expected:
            checked.add(
                Severity.ERROR, FindingKind.FILE_SIZE, f"{size:,} bytes, where files have {expected:,}",
                checked.found.below(path), min(size, expected), becomes=("refuses to start", "reads what is there"),
            )  # fmt: skip
        elif not size:
            checked.add(
                Severity.NOTE, FindingKind.FILE_SIZE, "an empty file: a crash came while it was made",
                checked.found.below(path), becomes=("removes it", "fills it"),
            )  # fmt: skip


def _add_difference(checked: CheckedStore, file: CheckedIndexFile, what: str, at: int) -> None:
    found, disk = checked.found, checked.dry.disk
    path = found.below(file.found.path)
    if not found.is_clean and file.found.header.end_timestamp_ms > found.checkpoint.index_timestamp_ms:
        # After a crash both brokers remove files that are newer than the checkpoint.
        what = "no checkpoint speaks of it, and after a crash none is needed"
        checked.add(Severity.NOTE, FindingKind.UNCLEAN, what, path, becomes=MADE_ANEW)
        return
    is_kept = disk.is_file(file.found.path) and file.found.path not in disk.removed_paths()
    is_mended = checked.dry.refusal is None and not is_kept
    severity = Severity.WARNING if is_mended else Severity.ERROR
    if found.is_in_use:  # the header is written before or after the entries
        severity = Severity.NOTE
    checked.add(
        severity, FindingKind.INDEX_DIFFERS, f"differs from the log, first here: {what}", path, at,
        becomes=(MADE_ANEW if is_mended else MISSED, MISSED),
    )  # fmt: skip


def _add_missing(checked: CheckedStore, index: IndexCheck) -> None:
    dry = checked.dry.store.index if checked.dry.refusal is None else None
    is_mended = dry is not None and (not index.files or dry.end_log_offset >= index.behind.last_log_offset)
    for missing, where, is_made in (
        (index.outside, "before the entries of a file", False),
        (index.behind, "behind the last file's entries", is_mended),
    ):
        if not missing.count:
            continue
        is_usual = not index.files or (is_made and not checked.found.is_clean)
        checked.add_of_log(
            Severity.NOTE if is_usual else Severity.WARNING if is_made else Severity.ERROR, FindingKind.INDEX_DIFFERS,
            f"no entries for {counted(missing.count, 'message')} {where}" if index.files else "there is no index",
            missing.first_log_offset, count=missing.count,
            becomes=(
                MADE_ANEW if is_made else MISSED,
                MISSED if checked.found.is_clean or not index.files else MADE_ANEW,
            ),
        )  # fmt: skip
