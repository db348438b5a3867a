"""The newest index file. Its slots are in memory, because three random 4-byte writes a message would cost more than the
message. It reaches the disk as a snapshot; a crash may tear that, but recovery notices."""

from __future__ import annotations

import mmap
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice

from rmqserver.core import ENTRY, INDEX_UNIT, OF_NO_KEY, index_units, log_offsets_of
from rmqserver.core.simple import SLOTS_PER_PAGE_SHIFT
from rmqserver.store.disk.disk import File
from rmqserver.store.index.index_file import HEADER, IndexFile

_PAGE_BYTES = 4 << SLOTS_PER_PAGE_SHIFT
_LOAD_BYTES = 1 << 20
UNITS_BEHIND_MAX_BYTES = 1 << 20
"""Units kept in memory before they are written ahead of the next snapshot."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The changes that bring a file on the disk up to date; another thread may write them."""

    file: File
    header: bytes
    end_timestamp_ms: int
    slots: list[tuple[int, bytes]]
    """Place in the file, and the bytes."""

    def write(self) -> None:
        """The changes, and the units written before, are on the device at return. The header goes first: until the
        checkpoint vouches for its end time, recovery after a crash drops the file and rebuilds it."""
        self.file.pwrite(self.header, 0)
        self.file.fdatasync()
        for at, data in self.slots:
            self.file.pwrite(data, at)
        self.file.fdatasync()


class LiveIndexFile(IndexFile):
    """The newest file. Its slots are in anonymous memory, touched as they are used; ``snapshot`` returns what to
    write."""

    def __init__(self, file: File, slot_count: int, unit_count: int):
        super().__init__(file, slot_count, unit_count)
        pages = -(-4 * slot_count // _PAGE_BYTES)
        self._memory = mmap.mmap(-1, pages * _PAGE_BYTES)
        self._slots = memoryview(self._memory).cast("i")
        self._dirty = bytearray(pages)
        self._behind = bytearray()
        self._behind_first = self.header.next_unit
        end = 4 * self.slot_count if self.header.next_unit > 1 else 0
        for at in range(0, end, _LOAD_BYTES):
            data = self.file.pread(min(_LOAD_BYTES, end - at), HEADER.size + at)
            if data.count(0) != len(data):  # unused slots stay untouched memory
                self._memory[at : at + len(data)] = _swapped(data)

    def slot(self, number: int) -> int:
        return self._slots[number]

    def unit(self, number: int) -> bytes:
        behind = number - self._behind_first
        if behind >= 0:
            return bytes(self._behind[behind * INDEX_UNIT.size : (behind + 1) * INDEX_UNIT.size])
        return super().unit(number)

    def put(self, entries: bytes) -> int:
        """Adds entries in log order; returns how many bytes of them fit."""
        header = self.header
        if header.next_unit <= 1:
            first = next((entry for entry in ENTRY.iter_unpack(entries) if entry[1] != OF_NO_KEY), None)
            if first is not None:
                _, _, header.begin_log_offset, header.begin_timestamp_ms = first
        number, room = header.next_unit, max(0, self.unit_count - header.next_unit)
        done = taken = len(entries)
        if done > room * ENTRY.size:
            taken, done = _fitting(entries, room, is_empty=number <= 1)
        units, used_slots = index_units(
            entries[:taken], self._slots, self.slot_count, self._dirty, number, header.begin_timestamp_ms
        )
        self._behind += units
        header.next_unit += len(units) // INDEX_UNIT.size
        header.used_slot_count += used_slots
        if done:
            _, _, header.end_log_offset, header.end_timestamp_ms = ENTRY.unpack_from(entries, done - ENTRY.size)
        return done

    def write_ahead(self) -> None:
        """Writes units once there are many; they count for nothing until the header counts them. OSError."""
        if len(self._behind) >= UNITS_BEHIND_MAX_BYTES:
            self._write_units()

    def _write_units(self) -> None:
        self.file.pwrite(self._behind, self._units_at + INDEX_UNIT.size * self._behind_first)
        self._behind.clear()
        self._behind_first = self.header.next_unit

    def snapshot(self) -> Snapshot | None:
        """The changes since the last snapshot, None if there are none. The caller has snapshots written in their order.
        Units are written before it returns, because a query reads from the file what is no longer in memory.
        OSError."""
        pages = [i for i, is_dirty in enumerate(self._dirty) if is_dirty]
        if not pages and not self._behind:
            return None
        if self.header.next_unit < self.unit_count:  # behind the last entry there may be some of before a crash
            blank_at = self._units_at + INDEX_UNIT.size * self.header.next_unit
            self.file.pwrite(bytes(INDEX_UNIT.size), blank_at)
        self._write_units()
        slots = []
        for first, behind in _runs(pages):
            start, stop = first * _PAGE_BYTES, min(behind * _PAGE_BYTES, 4 * self.slot_count)
            slots.append((HEADER.size + start, _swapped(self._memory[start:stop])))
        self._dirty = bytearray(len(self._dirty))
        return Snapshot(self.file, self.header.pack(), self.header.end_timestamp_ms, slots)


def _fitting(entries: bytes, room: int, *, is_empty: bool) -> tuple[int, int]:
    """How many bytes of the entries have units in a file with room for so many, and how many are done with that. The
    entries of a message never lie in two files; if it has more than an ``is_empty`` file can hold, the rest is dropped.
    """
    kinds, log_offsets = memoryview(entries).cast("I")[1::6].tolist(), log_offsets_of(entries).tolist()
    keyed = (at for at, kind in enumerate(kinds) if kind != OF_NO_KEY)
    over = next(islice(keyed, room, None), None)
    if over is None:
        return len(entries), len(entries)
    taken = done = log_offsets.index(log_offsets[over])
    if is_empty and kinds[:done].count(OF_NO_KEY) == done:
        taken, done = over, bisect_right(log_offsets, log_offsets[over])
        while kinds[done : done + 1] == [OF_NO_KEY]:  # they need no unit
            done += 1
    return ENTRY.size * taken, ENTRY.size * done


def _swapped(data: bytes) -> bytes:
    """Slots in the other byte order: big-endian on disk, native in memory."""
    slots = array("i", data)
    assert slots.itemsize == 4
    if sys.byteorder == "little":
        slots.byteswap()
    return slots.tobytes()


def _runs(pages: list[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive page numbers, as the first and the one behind the last."""
    for _, run in groupby(enumerate(pages), lambda pair: pair[1] - pair[0]):
        numbers = [page for _, page in run]
        yield numbers[0], numbers[-1] + 1
