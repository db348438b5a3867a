"""Compares one index file with the log, entry by entry, if rebuilding it gives another file. Some files differ without
damage: the oldest still holds expired messages, and after a crash some files hold a message twice."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from rmqserver.store.checks.looks.index_check import CheckedIndexFile, FoundIndexFile
from rmqserver.store.index.file import HEADER, INDEX_UNIT, SLOT, entries, seconds_since
from rmqserver.store.queues.round import IndexItem

_BLOCK_ENTRIES = 20_000
_RUNS_MAX = 1000

Entry = tuple[int, int, int, int]
"""Hash, log offset, seconds since the file's begin, number of the entry before it in its slot."""


class EntryState(enum.Enum):
    WRONG = enum.auto()
    """The entry is not the one that its message calls for."""
    MISSING = enum.auto()
    """A message has no entries, or not all; ``number`` is where they belong."""
    TWICE = enum.auto()
    """Its message already has its entries earlier."""
    STRAY = enum.auto()
    """The log has no message for it."""
    CHAIN = enum.auto()
    """The entry does not lead to the one before it in its slot."""
    SLOT = enum.auto()
    """The slot with this ``number`` does not lead to its newest entry."""


@dataclass(slots=True)
class EntryRun:
    """Consecutive entries in one state; ``log_offset`` is that of the first entry's message."""

    state: EntryState
    number: int
    count: int
    log_offset: int


class IndexDiff:
    """``begin_ms`` and ``end_ms``: store times of the file's first and last message, if the log has them. Entries count
    their seconds from the first."""

    def __init__(self, checked: CheckedIndexFile, min_offset: int):
        self.runs: list[EntryRun] = []
        self.dropped_runs = 0
        self.begin_ms: int | None = None
        self.end_ms: int | None = None
        self._checked = checked
        self._min_offset = min_offset
        self._begin_ms = checked.found.header.begin_timestamp_ms
        self._slots = array("i", bytes(SLOT.size * checked.found.slot_count))
        self._used_count = 0

    def run(self, items: Iterable[IndexItem]) -> None:
        """``items`` are those of the log from the file's first offset to its last."""
        found = _Ahead(self._checked.found)
        for item in items:
            if item[1] == self._checked.found.first_offset:
                self._begin_ms = self.begin_ms = item[2]
            if item[1] == self._checked.found.last_offset:
                self.end_ms = item[2]
            self._take_message(found, self._checked.fitted(item))
        while (entry := found.peek()) is not None:
            self._take_other(found, entry)
        self._compare_slots()

    @property
    def used_slot_count(self) -> int:
        return self._used_count

    def _take_message(self, found: _Ahead, item: IndexItem) -> None:
        hashes, _ = entries([item])
        log_offset = item[1]
        missing = 0
        for key_hash in hashes:
            while (entry := found.peek()) is not None and self._is_other(found, entry, key_hash, log_offset):
                self._take_other(found, entry)
            if entry is None or (entry[1] > log_offset and entry[0] != key_hash):
                missing += 1
                continue
            seconds = self._seconds(found.number, item[2])
            if (entry[0], entry[1]) != (key_hash, log_offset) or entry[2] not in seconds:
                self._add(EntryState.WRONG, found.number, log_offset)
            self._chain(found.number, key_hash, entry[3])
            found.take()
        if missing:
            self._add(EntryState.MISSING, found.number, log_offset, missing)

    def _is_other(self, found: _Ahead, entry: Entry, key_hash: int, log_offset: int) -> bool:
        """Whether the entry precedes the wanted one and belongs to another message."""
        if entry[1] == log_offset or entry[0] == key_hash:
            return False
        following = found.peek(1)
        is_next_wanted = following is not None and following[:2] == (key_hash, log_offset)
        return is_next_wanted or entry[1] < log_offset

    def _take_other(self, found: _Ahead, entry: Entry) -> None:
        number, log_offset = found.number, entry[1]
        if log_offset >= self._min_offset:  # else its message has expired
            is_twice = number > 1 and log_offset <= self._checked.found.entry(number - 1)[1]
            self._add(EntryState.TWICE if is_twice else EntryState.STRAY, number, log_offset)
        self._chain(number, entry[0], entry[3])
        found.take()

    def _seconds(self, number: int, store_ms: int) -> tuple[int, ...]:
        seconds = seconds_since(self._begin_ms, store_ms)
        return (seconds, self._checked.first_seconds) if number == 1 else (seconds,)

    def _chain(self, number: int, key_hash: int, previous: int) -> None:
        slot = key_hash % self._checked.found.slot_count
        expected = self._slots[slot]
        self._used_count += not expected
        if previous != expected:
            self._add(EntryState.CHAIN, number, self._checked.found.entry(number)[1])
        self._slots[slot] = number

    def _compare_slots(self) -> None:
        found, at = self._checked.found, 0
        while at < found.slot_count:
            count = min(_BLOCK_ENTRIES, found.slot_count - at)
            data = found.file.pread(SLOT.size * count, HEADER.size + SLOT.size * at)
            for number, (newest,) in enumerate(SLOT.iter_unpack(data.ljust(SLOT.size * count, b"\0")), at):
                if newest != self._slots[number]:
                    self._add(EntryState.SLOT, number, -1)
            at += count

    def _add(self, state: EntryState, number: int, log_offset: int, count: int = 1) -> None:
        last = self.runs[-1] if self.runs else None
        if last is not None and last.state is state and number <= last.number + last.count:
            last.count += count
        elif len(self.runs) < _RUNS_MAX:
            self.runs.append(EntryRun(state, number, count, log_offset))
        else:
            self.dropped_runs += 1


class _Ahead:
    """A file's entries in order. ``number`` is that of the next one."""

    def __init__(self, found: FoundIndexFile):
        self.number = 1
        self._entries = _all_entries(found)
        self._next: list[Entry] = list(islice(self._entries, 2))

    def peek(self, ahead: int = 0) -> Entry | None:
        return self._next[ahead] if ahead < len(self._next) else None

    def take(self) -> None:
        self.number += 1
        del self._next[0]
        self._next += islice(self._entries, 1)


def _all_entries(found: FoundIndexFile) -> Iterator[Entry]:
    at, left = found.units_at + INDEX_UNIT.size, found.entry_count
    while left:
        count = min(left, _BLOCK_ENTRIES)
        data = found.file.pread(INDEX_UNIT.size * count, at)
        yield from INDEX_UNIT.iter_unpack(data.ljust(INDEX_UNIT.size * count, b"\0"))
        at += INDEX_UNIT.size * count
        left -= count
