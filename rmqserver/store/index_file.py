"""One index file: a hash table from ``topic#key`` to log offsets. A file that takes no more entries is read from disk;
the newest one has its slots in memory, because three random 4-byte writes a message would cost more than the message,
and reaches the disk as a snapshot that is whole or, after a crash, known not to be."""

from __future__ import annotations

import mmap
import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from rmqproto.java_hash import extend_hash_id, extend_hash_utf8
from rmqserver.store.consume_queues import Topic
from rmqserver.store.disk import File

# IndexHeader (5.5.0), 40 bytes, big-endian: begin time i64 | end time i64 | begin log offset i64 | end log offset i64
# | used slots i32 | number of the next unit i32 (starts at 1, unit 0 is never used)
_HEADER = struct.Struct(">qqqqii")
# Slots: i32 each, the number of the newest unit of the chain, 0 = none.
# Unit (IndexFile, 5.5.0), 20 bytes: key hash i32 | log offset i64 | seconds since begin time i32 | previous unit i32
_UNIT = struct.Struct(">iqii")
_SLOT = struct.Struct(">i")

_SLOTS_PER_PAGE_SHIFT = 10
_PAGE_BYTES = 4 << _SLOTS_PER_PAGE_SHIFT
_LOAD_BYTES = 1 << 20
UNITS_BEHIND_MAX_BYTES = 1 << 20
"""Units kept in memory before they are written ahead of the next snapshot."""

_SECONDS_MAX = 0x7FFFFFFF
_SIGN = 0x80000000
_MODULUS = 1 << 32

TAG_HASHES_CACHED_MAX = 1000
"""For each topic: tags come from clients."""

IndexItem = tuple[Topic, int, int, bytes, bytes, bytes]
"""Topic, log offset, store time in ms, UNIQ_KEY, KEYS, TAGS."""

# Bound once: it runs three times a message.
_pack_unit = _UNIT.pack


def file_size_bytes(slot_count: int, unit_count: int) -> int:
    return _HEADER.size + 4 * slot_count + _UNIT.size * unit_count


@dataclass(slots=True)
class Header:
    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_log_offset: int = 0
    end_log_offset: int = 0
    used_slot_count: int = 0
    next_unit: int = 1

    def follow(self, full: Header) -> None:
        """An empty file begins where the full one ended, so that a replay passes over what is in that."""
        self.begin_timestamp_ms = self.end_timestamp_ms = full.end_timestamp_ms
        self.begin_log_offset = self.end_log_offset = full.end_log_offset

    def pack(self) -> bytes:
        return _HEADER.pack(
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
        self.header = Header(*_HEADER.unpack(file.pread(_HEADER.size, 0)))
        self.header.next_unit = max(1, self.header.next_unit)
        self._units_at = _HEADER.size + 4 * slot_count

    @property
    def is_empty(self) -> bool:
        return self.header.next_unit <= 1

    def slot(self, number: int) -> int:
        return int(_SLOT.unpack(self.file.pread(4, _HEADER.size + 4 * number))[0])

    def unit(self, number: int) -> bytes:
        return self.file.pread(_UNIT.size, self._units_at + _UNIT.size * number)

    def last_message_entry_count(self) -> int:
        """How many entries the newest message in this file has here."""
        count = 0
        while (number := self.header.next_unit - 1 - count) > 0:
            if _UNIT.unpack(self.unit(number))[1] != self.header.end_log_offset:
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
        """(hash, log offset, time in ms) of every unit of the hash's slot, newest first. Damage ends it."""
        number = self.slot(key_hash % self.slot_count)
        while 0 < number < self.header.next_unit:
            unit_hash, log_offset, seconds, previous = _UNIT.unpack(self.unit(number))
            if seconds < 0:
                return
            yield unit_hash, log_offset, self.header.begin_timestamp_ms + 1000 * seconds
            if previous >= number:
                return
            number = previous


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What brings a file on the disk up to date; may be written by another thread."""

    file: File
    header: bytes
    end_timestamp_ms: int
    units: bytes
    units_at: int
    slots: list[tuple[int, bytes]]
    """Where in the file, and the bytes."""

    def write(self) -> None:
        """On the device at return. The header goes first: until the checkpoint vouches for its end time, a crash
        makes recovery drop the file and build it again."""
        self.file.pwrite(self.header, 0)
        if self.units:
            self.file.pwrite(self.units, self.units_at)
        self.file.fdatasync()
        for at, data in self.slots:
            self.file.pwrite(data, at)
        self.file.fdatasync()


class LiveIndexFile(IndexFile):
    """The newest file. Its slots are in anonymous memory, touched as they are used; ``snapshot`` says what to write."""

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
            data = self.file.pread(min(_LOAD_BYTES, end - at), _HEADER.size + at)
            if data.count(0) != len(data):  # what was never used stays untouched memory
                self._memory[at : at + len(data)] = _swapped(data)
            at += len(data)

    def slot(self, number: int) -> int:
        return self._slots[number]

    def unit(self, number: int) -> bytes:
        behind = number - self._behind_first
        if behind >= 0:
            return bytes(self._behind[behind * _UNIT.size : (behind + 1) * _UNIT.size])
        return super().unit(number)

    def put(self, items: list[IndexItem], first: int) -> int:
        """Adds the entries of ``items[first:]``; returns the position of the first message that found no room. A
        message's entries are never spread over two files, unless no file could hold them all."""
        header, slots, dirty = self.header, self._slots, self._dirty
        units: list[bytes] = []
        append_unit = units.append
        slot_count, used_count, number = self.slot_count, header.used_slot_count, header.next_unit
        now_ms = seconds = -1
        log_offset = header.end_log_offset
        for position in range(first, len(items)):
            topic, log_offset, store_timestamp_ms, unique_key, keys, tags = items[position]
            hashes = entry_hashes(topic, unique_key, keys, tags)
            if number + len(hashes) > self.unit_count:
                if number > 1:
                    break
                del hashes[self.unit_count - number :]
            if store_timestamp_ms != now_ms:
                if number <= 1:
                    header.begin_timestamp_ms, header.begin_log_offset = store_timestamp_ms, log_offset
                now_ms = store_timestamp_ms
                seconds = min(max(0, now_ms - header.begin_timestamp_ms) // 1000, _SECONDS_MAX)
            for key_hash in hashes:
                slot = key_hash % slot_count
                previous = slots[slot]
                if not 0 < previous < number:
                    previous = 0
                    used_count += 1
                append_unit(_pack_unit(key_hash, log_offset, seconds, previous))
                slots[slot] = number
                dirty[slot >> _SLOTS_PER_PAGE_SHIFT] = 1
                number += 1
            header.end_log_offset, header.end_timestamp_ms = log_offset, store_timestamp_ms
        else:
            position = len(items)
        self._behind += b"".join(units)
        header.next_unit, header.used_slot_count = number, used_count
        return position

    def write_ahead(self) -> None:
        """Writes units once there are many; without the header's count they mean nothing yet. OSError."""
        if len(self._behind) >= UNITS_BEHIND_MAX_BYTES:
            self.file.pwrite(self._behind, self._units_at + _UNIT.size * self._behind_first)
            self._behind.clear()
            self._behind_first = self.header.next_unit

    def snapshot(self) -> Snapshot | None:
        """What changed since the last one, None if nothing. The caller sees to it that it is written before the next
        one is."""
        pages = [i for i, is_dirty in enumerate(self._dirty) if is_dirty]
        if not pages and not self._behind:
            return None
        units_at = self._units_at + _UNIT.size * self._behind_first
        snapshot = Snapshot(
            self.file, self.header.pack(), self.header.end_timestamp_ms, bytes(self._behind), units_at,
            [self._page_run(first, count) for first, count in _runs(pages)],
        )  # fmt: skip
        self._dirty = bytearray(len(self._dirty))
        self._behind.clear()
        self._behind_first = self.header.next_unit
        return snapshot

    def _page_run(self, first: int, count: int) -> tuple[int, bytes]:
        start = first * _PAGE_BYTES
        stop = min((first + count) * _PAGE_BYTES, 4 * self.slot_count)
        return _HEADER.size + start, _swapped(self._memory[start:stop])


def key_hash(unsigned_hash: int) -> int:
    """The hash as units hold it: absolute value, 0 for the one number that has none."""
    return unsigned_hash if unsigned_hash < _SIGN else (_MODULUS - unsigned_hash) & 0x7FFFFFFF


def index_item(topic: Topic, log_offset: int, store_timestamp_ms: int, properties: bytes) -> IndexItem:
    unique_key, keys = property_bytes(properties, b"UNIQ_KEY\x01"), property_bytes(properties, b"KEYS\x01")
    return topic, log_offset, store_timestamp_ms, unique_key, keys, property_bytes(properties, b"TAGS\x01")


def entry_hashes(topic: Topic, unique_key: bytes, keys: bytes, tags: bytes) -> list[int]:
    """Of a message's entries in Apache's order: unique key, keys, tag."""
    prefix = topic.index_prefix_hash
    found = []
    if unique_key:
        value = extend_hash_id(prefix, unique_key)
        found.append(value if value < _SIGN else (_MODULUS - value) & 0x7FFFFFFF)
    if keys:
        for key in keys.split(b" ") if 0x20 in keys else (keys,):
            if key:
                value = extend_hash_utf8(prefix, key)
                found.append(value if value < _SIGN else (_MODULUS - value) & 0x7FFFFFFF)
    if tags:
        found.append(topic.tag_hashes.get(tags) or _tag_hash(topic, tags))
    return found


def _tag_hash(topic: Topic, tags: bytes) -> int:
    if len(topic.tag_hashes) >= TAG_HASHES_CACHED_MAX:
        topic.tag_hashes.clear()
    found = topic.tag_hashes[tags] = key_hash(extend_hash_utf8(topic.index_prefix_hash, b"T#" + tags))
    return found


def property_bytes(properties: bytes, name_and_separator: bytes) -> bytes:
    """One value out of a record's properties, empty if it is not there."""
    before, found, rest = properties.partition(name_and_separator)
    while before and before[-1] != 2 and found:
        more, found, rest = rest.partition(name_and_separator)
        before = more or name_and_separator
    return rest.partition(b"\x02")[0]


def _swapped(data: bytes) -> bytes:
    """Slots in the other byte order: they are big-endian on disk, native in memory."""
    slots = array("i", data)
    assert slots.itemsize == 4
    if sys.byteorder == "little":
        slots.byteswap()
    return slots.tobytes()


def _runs(pages: list[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring page numbers as (first, count)."""
    at = 0
    while at < len(pages):
        stop = at + 1
        while stop < len(pages) and pages[stop] == pages[at] + stop - at:
            stop += 1
        yield pages[at], stop - at
        at = stop
