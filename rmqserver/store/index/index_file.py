"""One index file: a hash table from ``topic#key`` to log offsets. Full files are read from disk. The newest file has
its slots in memory, because three random 4-byte writes a message would cost more than the message. It reaches the disk
as a snapshot; a crash may tear that, but recovery notices."""

from __future__ import annotations

import mmap
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

from rmqproto.java.java_hash import SIGN, abs_hash, extend_hash_utf8, extend_hashes_id
from rmqproto.message.properties import message_keys
from rmqserver.store.disk.disk import File
from rmqserver.store.queues.consume_queues import NO_TAG, Topic
from rmqserver.store.queues.round import IndexItem

try:
    from rmqserver.store.index._index import index_units as index_units
except ImportError:  # installed without a C compiler
    index_units = None  # type: ignore[assignment]

# IndexHeader (5.5.0), 40 bytes, big-endian: begin time i64 | end time i64 | begin log offset i64 | end log offset i64
# | used slots i32 | number of the next unit i32 (starts at 1, unit 0 is never used)
HEADER = struct.Struct(">qqqqii")
# Slots: i32 each, the number of the newest unit of the chain, 0 = none.
# Unit (IndexFile, 5.5.0), 20 bytes: key hash i32 | log offset i64 | seconds since begin time i32 | previous unit i32
INDEX_UNIT = struct.Struct(">iqii")
SLOT = struct.Struct(">i")

_SLOTS_PER_PAGE_SHIFT = 10
_PAGE_BYTES = 4 << _SLOTS_PER_PAGE_SHIFT
_LOAD_BYTES = 1 << 20
UNITS_BEHIND_MAX_BYTES = 1 << 20
"""Units kept in memory before they are written ahead of the next snapshot."""

_SECONDS_MAX = 0x7FFFFFFF

NAME_DIGITS = 17


def seconds_since(begin_timestamp_ms: int, store_timestamp_ms: int) -> int:
    """The time of an entry, as its unit holds it."""
    return min(max(0, store_timestamp_ms - begin_timestamp_ms) // 1000, _SECONDS_MAX)


def is_index_name(name: str) -> bool:
    """Whether an index file can have this name: it is the local time when the file was made."""
    return len(name) == NAME_DIGITS and name.isdecimal()


def file_size_bytes(slot_count: int, unit_count: int) -> int:
    return HEADER.size + 4 * slot_count + INDEX_UNIT.size * unit_count


@dataclass(slots=True)
class IndexHeader:
    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_log_offset: int = 0
    end_log_offset: int = 0
    used_slot_count: int = 0
    next_unit: int = 1

    def follow(self, full: IndexHeader) -> None:
        """Makes this empty file begin where the full one ended, so that a replay skips what the full one holds."""
        self.begin_timestamp_ms = self.end_timestamp_ms = full.end_timestamp_ms
        self.begin_log_offset = self.end_log_offset = full.end_log_offset

    def pack(self) -> bytes:
        return HEADER.pack(
            self.begin_timestamp_ms, self.end_timestamp_ms, self.begin_log_offset, self.end_log_offset,
            self.used_slot_count, self.next_unit,
        )  # fmt: skip


class IndexFile:
    """A file as it is on the disk."""

    def __init__(self, file: File, slot_count: int, unit_count: int):
        self.path = file.path
        self.file = file
        self.slot_count = slot_count
        self.unit_count = unit_count
        self.header = IndexHeader(*HEADER.unpack(file.pread(HEADER.size, 0)))
        self.header.next_unit = min(max(1, self.header.next_unit), unit_count)  # a larger number is damage
        self._units_at = HEADER.size + 4 * slot_count

    @property
    def is_empty(self) -> bool:
        return self.header.next_unit <= 1

    def slot(self, number: int) -> int:
        return int(SLOT.unpack(self.file.pread(4, HEADER.size + 4 * number))[0])

    def unit(self, number: int) -> bytes:
        return self.file.pread(INDEX_UNIT.size, self._units_at + INDEX_UNIT.size * number)

    def last_message_entry_count(self) -> int:
        """How many entries the newest message of this file has in it."""
        count = 0
        while (number := self.header.next_unit - 1 - count) > 0:
            if INDEX_UNIT.unpack(self.unit(number))[1] != self.header.end_log_offset:
                break
            count += 1
        return count

    def find(self, key_hash: int, begin_ms: int, end_ms: int, count_max: int) -> list[int]:
        """Log offsets of entries with this hash and a time in [begin, end], newest first."""
        found: list[int] = []
        for unit_hash, log_offset, time_ms in self._chain(key_hash):
            if len(found) >= count_max or time_ms + 999 < begin_ms:  # a unit knows whole seconds only
                break
            if unit_hash == key_hash and time_ms <= end_ms:
                found.append(log_offset)
        return found

    def _chain(self, key_hash: int) -> Iterator[tuple[int, int, int]]:
        """(hash, log offset, time in ms) of every unit in the hash's slot, newest first. Stops at damage."""
        number = self.slot(key_hash % self.slot_count)
        while 0 < number < self.header.next_unit:
            unit_hash, log_offset, seconds, previous = INDEX_UNIT.unpack(self.unit(number))
            if seconds < 0:
                return
            yield unit_hash, log_offset, self.header.begin_timestamp_ms + 1000 * seconds
            if previous >= number:
                return
            number = previous


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
        if self.header.next_unit > 1:
            self._load_slots()

    def _load_slots(self) -> None:
        at, end = 0, 4 * self.slot_count
        while at < end:
            data = self.file.pread(min(_LOAD_BYTES, end - at), HEADER.size + at)
            if data.count(0) != len(data):  # unused slots stay untouched memory
                self._memory[at : at + len(data)] = _swapped(data)
            at += len(data)

    def slot(self, number: int) -> int:
        return self._slots[number]

    def unit(self, number: int) -> bytes:
        behind = number - self._behind_first
        if behind >= 0:
            return bytes(self._behind[behind * INDEX_UNIT.size : (behind + 1) * INDEX_UNIT.size])
        return super().unit(number)

    def put(self, items: list[IndexItem]) -> int:
        """Adds the entries of messages in log order; returns how many messages fit. The entries of a message are never
        spread over two files, unless no file could hold them all."""
        header, done = self.header, len(items)
        room = self.unit_count - header.next_unit
        if self._put_natively(items, room):
            return done
        hashes, log_offsets = entries(items)
        if len(hashes) > room:
            next_offset = log_offsets[room]
            end = log_offsets.index(next_offset)
            if not end and header.next_unit <= 1:
                end, next_offset = room, next((offset for offset in log_offsets if offset > log_offsets[0]), -1)
            done = next((position for position, item in enumerate(items) if item[1] == next_offset), done)
            del hashes[end:], log_offsets[end:]
        if hashes:
            if header.next_unit <= 1:
                header.begin_log_offset = log_offsets[0]
                header.begin_timestamp_ms = next(item[2] for item in items if item[1] == log_offsets[0])
            self._chain_up(hashes, log_offsets, self._seconds(items, log_offsets))
        if done:
            _, header.end_log_offset, header.end_timestamp_ms, _, _, _ = items[done - 1]
        return done

    def _put_natively(self, items: list[IndexItem], room: int) -> bool:
        """Does it in C, except for a file's first entries and unusual messages. False if Python has to do it."""
        header = self.header
        if index_units is None or header.next_unit <= 1 or not items:
            return False
        done = index_units(
            items, self._slots, self.slot_count, self._dirty, header.next_unit, room, header.begin_timestamp_ms
        )
        if done is None:
            return False
        units, used_slots = done
        self._behind += units
        header.next_unit += len(units) // INDEX_UNIT.size
        header.used_slot_count += used_slots
        _, header.end_log_offset, header.end_timestamp_ms, _, _, _ = items[-1]
        return True

    def _chain_up(self, hashes: list[int], log_offsets: list[int], seconds: Iterable[int]) -> None:
        """Does each step for all entries: a loop that does all steps for each entry takes a third longer."""
        header, slots, slot_count = self.header, self._slots, self.slot_count
        number = header.next_unit
        taken = [key_hash % slot_count for key_hash in hashes]
        before: list[int] = []
        for slot in taken:
            previous = slots[slot]
            before.append(previous if 0 < previous < number else 0)
            slots[slot] = number
            number += 1
        for page in {slot >> _SLOTS_PER_PAGE_SHIFT for slot in taken}:
            self._dirty[page] = 1
        self._behind += b"".join(map(INDEX_UNIT.pack, hashes, log_offsets, seconds, before))
        header.next_unit = number
        header.used_slot_count += before.count(0)

    def _seconds(self, items: list[IndexItem], log_offsets: list[int]) -> Iterable[int]:
        """The seconds from the file's begin time to each entry."""
        begin_ms = self.header.begin_timestamp_ms
        by_time = {at_ms: seconds_since(begin_ms, at_ms) for at_ms in {item[2] for item in items}}
        if len(set(by_time.values())) == 1:
            return repeat(by_time.popitem()[1])
        by_offset = {item[1]: by_time[item[2]] for item in items}
        return [by_offset[log_offset] for log_offset in log_offsets]

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
        slots = [self._page_run(first, count) for first, count in _runs(pages)]
        self._dirty = bytearray(len(self._dirty))
        return Snapshot(self.file, self.header.pack(), self.header.end_timestamp_ms, slots)

    def _page_run(self, first: int, count: int) -> tuple[int, bytes]:
        start = first * _PAGE_BYTES
        stop = min((first + count) * _PAGE_BYTES, 4 * self.slot_count)
        return HEADER.size + start, _swapped(self._memory[start:stop])


def index_item(topic: Topic, log_offset: int, store_timestamp_ms: int, properties: bytes) -> IndexItem:
    unique_key, keys, tags = message_keys(properties)
    _, tag_hash = topic.tag(tags)
    return topic.index_prefix_hash, log_offset, store_timestamp_ms, unique_key, keys, tag_hash


def entries(items: list[IndexItem]) -> tuple[list[int], list[int]]:
    """Hashes and log offsets of the messages' entries; those of one message in Apache's order: unique key, keys,
    tag."""
    hashes: list[int] = []
    log_offsets: list[int] = []
    ids = extend_hashes_id([item[0] for item in items], [item[3] for item in items])
    for (prefix_hash, log_offset, _, unique_key, keys, tag_hash), id_hash in zip(items, ids, strict=True):
        if unique_key:
            hashes.append(id_hash if id_hash < SIGN else abs_hash(id_hash))
            log_offsets.append(log_offset)
        if keys:
            for key in keys.split(b" ") if 0x20 in keys else (keys,):
                if key:
                    hashed = extend_hash_utf8(prefix_hash, key)
                    hashes.append(hashed if hashed < SIGN else abs_hash(hashed))
                    log_offsets.append(log_offset)
        if tag_hash != NO_TAG:
            hashes.append(tag_hash)
            log_offsets.append(log_offset)
    return hashes, log_offsets


def _swapped(data: bytes) -> bytes:
    """Slots in the other byte order: big-endian on disk, native in memory."""
    slots = array("i", data)
    assert slots.itemsize == 4
    if sys.byteorder == "little":
        slots.byteswap()
    return slots.tobytes()


def _runs(pages: list[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive page numbers as (first, count)."""
    at = 0
    while at < len(pages):
        stop = at + 1
        while stop < len(pages) and pages[stop] == pages[at] + stop - at:
            stop += 1
        yield pages[at], stop - at
        at = stop
