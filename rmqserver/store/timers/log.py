"""The ``timerlog`` directory: one unit for each waiting message. The units of a slot of the wheel form a chain, from
the newest back (``TimerLog``, 5.5.0)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rmqproto.message.record import MAGIC_BLANK
from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.segments import FileCache, SegmentedFile, clear

# A unit, big-endian:
#  0 size i32 (52) | 4 position of the slot's unit before it i64 (-1: none) | 12 magic i32 | 16 write time i64, ms
# 24 delay i32: the slot's time - the write time, ms | 28 log offset of the message i64 | 36 its size i32
# 40 Java hash of the real topic i32 | 44 reserved i64 (0)
UNIT = struct.Struct(">iqiqiqiiq")
UNIT_SIZE_BYTES = UNIT.size

_PREVIOUS = struct.Struct(">q")
_PREVIOUS_AT = 4
NO_POSITION = -1

# The end of a file: bytes left i32 | 0 i64 | MAGIC_BLANK i32
BLANK = struct.Struct(">iqi")

MAGIC_DEFAULT = 1
MAGIC_ROLL = 2
"""The message is not due yet: it gets another unit, further around the wheel."""
MAGIC_DELETE = 4
"""The message recalls another one of the same slot."""
_MAGIC_MAX = 0xF

READ_SIZE_BYTES = 1 << 20
NEAR_BYTES = 64 << 10
READ_UNITS = 1024
"""Units of a chain read at once: neighbours in a chain are usually neighbours in the file."""


class Unit(NamedTuple):
    """``log_offset`` and ``message_size_bytes`` tell which record of the commit log waits; ``slot_time_ms`` when it is
    due, or will be rolled."""

    position: int
    previous_position: int
    magic: int
    write_time_ms: int
    delay_ms: int
    log_offset: int
    message_size_bytes: int
    topic_hash: int

    @property
    def size_bytes(self) -> int:
        return UNIT_SIZE_BYTES

    @property
    def slot_time_ms(self) -> int:
        return self.write_time_ms + self.delay_ms

    @property
    def is_roll(self) -> bool:
        return bool(self.magic & MAGIC_ROLL)

    @property
    def is_delete(self) -> bool:
        return bool(self.magic & MAGIC_DELETE)

    @property
    def is_recall(self) -> bool:
        """Whether it recalls messages of its own slot; a recall that is rolled does so later."""
        return self.is_delete and not self.is_roll


class TimerLog:
    """``end_position`` is where the next unit goes; ``written_position`` is where the files end."""

    def __init__(self, directory: str, file_size_bytes: int, disk: Disk, cache: FileCache):
        self.segments = SegmentedFile(directory, file_size_bytes, disk, cache)
        self.end_position = self.written_position = 0
        self._pending = bytearray()
        self._changed_bases: set[int] = set()
        self._disk = disk

    def append(
        self,
        previous_position: int,
        magic: int,
        write_time_ms: int,
        delay_ms: int,
        log_offset: int,
        message_size_bytes: int,
        topic_hash: int,
    ) -> int:
        """Returns the position of the new unit, which is in the file after ``write``."""
        left = self.segments.file_size_bytes - self.end_position % self.segments.file_size_bytes
        if left < UNIT_SIZE_BYTES + BLANK.size:
            self._pending += BLANK.pack(left, 0, MAGIC_BLANK).ljust(left, b"\0")
            self.end_position += left
        position = self.end_position
        self._pending += UNIT.pack(
            UNIT_SIZE_BYTES, previous_position, magic, write_time_ms, delay_ms, log_offset, message_size_bytes,
            topic_hash, 0,
        )  # fmt: skip
        self.end_position += UNIT_SIZE_BYTES
        return position

    def write(self) -> None:
        """Writes appended units to the files. OSError; the next call then tries the rest again."""
        while self._pending:
            base = self.segments.base_of(self.written_position)
            inside = self.written_position - base
            size = min(len(self._pending), self.segments.file_size_bytes - inside)
            self.segments.create(base).pwrite(bytes(self._pending[:size]), inside)
            self._changed_bases.add(base)
            self.written_position += size
            del self._pending[:size]

    def take_changed_bases(self) -> list[int]:
        """Files written since the last call, for ``sync``."""
        changed, self._changed_bases = sorted(self._changed_bases), set()
        return changed

    def sync(self, bases: list[int]) -> None:
        """These files are on the device at return, names included. Any thread."""
        for base in bases:
            if base in self.segments.bases:
                self.segments.file(base).fdatasync()
        if bases:
            self._disk.sync_directory(self.segments.directory)

    def chain(self, last_position: int) -> Iterator[Unit]:
        """A slot's units, newest first, from the one at ``last_position`` back. Ends early if a unit is damaged or its
        file is gone."""
        data, start = b"", 0
        position = last_position
        while position >= self.segments.min_offset:
            if not start <= position <= start + len(data) - UNIT_SIZE_BYTES:
                base = self.segments.base_of(position)
                start = max(base, position - (READ_UNITS - 1) * UNIT_SIZE_BYTES)
                data = self._read(start, position + UNIT_SIZE_BYTES - start)
            unit = _unit(data, position - start, position)
            if unit is None or unit.previous_position >= position:
                return
            yield unit
            position = unit.previous_position

    def scan(self, start: int) -> Iterator[Unit]:
        """The valid units from ``start`` on, up to the first invalid one."""
        position = start
        while True:
            base = self.segments.base_of(position)
            data = self._read(position, min(READ_SIZE_BYTES, base + self.segments.file_size_bytes - position))
            at = 0
            while (unit := _unit(data, at, position + at)) is not None:
                yield unit
                at += UNIT_SIZE_BYTES
            if _is_blank(data, at):
                position = base + self.segments.file_size_bytes
            elif at and at + UNIT_SIZE_BYTES > len(data):
                position += at
            else:
                return

    def end_at(self, position: int) -> None:
        """The log continues at ``position``, the end of the last valid unit; the rest is cut off."""
        self.segments.delete_after(position)
        clear(self.segments, position)
        self._pending.clear()
        self.end_position = self.written_position = position

    def unit(self, position: int) -> Unit | None:
        """The unit at a position; None if there is none."""
        return _unit(self._read(position, UNIT_SIZE_BYTES), 0, position)

    def units(self, positions: Sequence[int]) -> list[Unit | None]:
        """As ``unit``, for ascending positions; units near each other are read at once."""
        first, size = positions[0], positions[-1] + UNIT_SIZE_BYTES - positions[0]
        if size > NEAR_BYTES or self.segments.base_of(first) != self.segments.base_of(positions[-1]):
            return [self.unit(position) for position in positions]
        data = self._read(first, size)
        return [_unit(data, position - first, position) for position in positions]

    def begin_chain_at(self, position: int) -> None:
        """Cuts a slot's chain: it now starts with the unit at ``position``, which must be in its file."""
        base = self.segments.base_of(position)
        self.segments.file(base).pwrite(_PREVIOUS.pack(NO_POSITION), position - base + _PREVIOUS_AT)
        self._changed_bases.add(base)

    def last_unit_of(self, base: int) -> Unit | None:
        """The last unit of a full file; None if the file holds none."""
        units = (self.segments.file_size_bytes - BLANK.size) // UNIT_SIZE_BYTES
        return self.unit(base + (units - 1) * UNIT_SIZE_BYTES)

    def _read(self, position: int, size_bytes: int) -> bytes:
        if position + size_bytes <= self.written_position or not self._pending:
            return self.segments.read(position, size_bytes)
        if position >= self.written_position:
            at = position - self.written_position
            return bytes(self._pending[at : at + size_bytes])
        stored = self.segments.read(position, self.written_position - position)
        return stored + bytes(self._pending[: size_bytes - len(stored)])


def _unit(data: bytes, at: int, position: int) -> Unit | None:
    if at < 0 or at + UNIT_SIZE_BYTES > len(data):
        return None
    size, previous, magic, write_ms, delay_ms, log_offset, message_size, topic_hash, _ = UNIT.unpack_from(data, at)
    # A power cut tears units at multiples of four bytes. A torn unit's message size did not reach the device.
    if size != UNIT_SIZE_BYTES or not 0 < magic <= _MAGIC_MAX or message_size <= 0:
        return None
    return Unit(position, previous, magic, write_ms, delay_ms, log_offset, message_size, topic_hash)


def _is_blank(data: bytes, at: int) -> bool:
    return at + BLANK.size <= len(data) and BLANK.unpack_from(data, at)[2] == MAGIC_BLANK
