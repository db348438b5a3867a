"""One index file as it is on the disk: a hash table from ``topic#key`` to log offsets, and how a message's entries are
made."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rmqproto.message.properties import message_keys
from rmqserver.core import INDEX_UNIT, IndexItem, pack_entries
from rmqserver.store.disk.disk import Disk, File
from rmqserver.store.fate import FATE_MASK, INDEXED
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.queues.consume_queues import Topic

# IndexHeader (5.5.0), 40 bytes, big-endian: begin time i64 | end time i64 | begin log offset i64 | end log offset i64
# | used slots i32 | number of the next unit i32 (starts at 1, unit 0 is never used)
HEADER = struct.Struct(">qqqqii")
# Slots: i32 each, the number of the newest unit of the chain, 0 = none.
# Units: INDEX_UNIT
SLOT = struct.Struct(">i")

NAME_DIGITS = 17


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

    def entry(self, number: int) -> tuple[int, int, int, int] | None:
        """Hash, log offset, seconds since the file's begin, and the number of the entry before it in its slot; None
        behind the last."""
        unit = self.unit(number)
        if len(unit) < INDEX_UNIT.size or not any(unit):
            return None
        found: tuple[int, int, int, int] = INDEX_UNIT.unpack(unit)
        return found

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


def index_item(topic: Topic, log_offset: int, store_timestamp_ms: int, properties: bytes) -> IndexItem:
    unique_key, keys, tags = message_keys(properties)
    _, tag_hash = topic.tag(tags)
    return topic.index_prefix_hash, log_offset, store_timestamp_ms, unique_key, keys, tag_hash


def entries_of(records: Iterable[FoundRecord], known: Mapping[str, Topic]) -> bytes:
    """The index entries of records. A topic that is not ``known`` was deleted, but its records stay until they
    expire."""
    items: list[IndexItem] = []
    others: dict[str, Topic] = {}
    for found in records:
        topic = known.get(found.topic) or others.get(found.topic)
        if topic is None:
            topic = others[found.topic] = Topic(found.topic)
        if topic.fates[found.sys_flag & FATE_MASK] & INDEXED:
            items.append(index_item(topic, found.log_offset, found.store_timestamp_ms, found.properties))
    return pack_entries(items)


_READ_BYTES = 4 << 20

Counts = tuple[int, int]
"""Slots and units of a file."""


def found_counts(disk: Disk, paths: list[str], expected: Counts) -> Counts | None:
    """The counts with which the files of this directory were made: the expected ones if the sizes allow them, else
    those that one of the files proves. None if none does."""
    sizes = {disk.file_size(path) for path in paths} - {0}
    if not sizes or file_size_bytes(*expected) in sizes:
        return expected
    for path in reversed(paths):
        file = disk.open(path, read_only=True)
        found = next(_proven(file), None)
        if found is not None:
            return found
    return None


def _proven(file: File) -> Iterator[Counts]:
    """Searches for the last unit by the log offset in the header. The last unit is the newest of its slot, so the slot
    must point to it."""
    size = file.size()
    data = file.pread(HEADER.size, 0)
    if len(data) < HEADER.size:
        return
    header = IndexHeader(*HEADER.unpack(data))
    last = header.next_unit - 1
    if last < 1 or last * INDEX_UNIT.size > size:
        return
    for at in _places(file, header.end_log_offset.to_bytes(8, "big", signed=True)):
        units_at = at - 4 - last * INDEX_UNIT.size
        slot_count, rest = divmod(units_at - HEADER.size, SLOT.size)
        unit_count, more = divmod(size - units_at, INDEX_UNIT.size)
        if slot_count < 1 or rest or more or unit_count <= last:
            continue
        key_hash = int.from_bytes(file.pread(4, at - 4), "big")
        (newest,) = SLOT.unpack(file.pread(SLOT.size, HEADER.size + SLOT.size * (key_hash % slot_count)))
        _, first_offset, _, _ = INDEX_UNIT.unpack(file.pread(INDEX_UNIT.size, units_at + INDEX_UNIT.size))
        if newest == last and first_offset == header.begin_log_offset:
            yield slot_count, unit_count


def _places(file: File, wanted: bytes) -> Iterator[int]:
    """Where these bytes occur in a file behind the header; holes are not read."""
    at, size, overlap = HEADER.size, file.size(), len(wanted) - 1
    while (at := file.next_data(at)) < size:
        data = file.pread(_READ_BYTES + overlap, at)
        found = data.find(wanted)
        while found >= 0:
            yield at + found
            found = data.find(wanted, found + 1)
        at += _READ_BYTES
