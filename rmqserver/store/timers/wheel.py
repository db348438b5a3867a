"""The ``timerwheel`` file: for each second to come, the units of the timer log that are due then (``TimerWheel`` and
``Slot``, 5.5.0). Slots that hold something are kept in memory; ``write`` writes the changed ones. The file, 39 MB and
sparse, is made with the first one. Apache's broker also makes a missing file.

The wheel is derived from the timer log, and that from the commit log. Recovery rebuilds the slots.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import NamedTuple

from rmqproto.errors import StorageError
from rmqserver.store.disk.disk import Disk, File
from rmqserver.store.timers.log import TimerLog, Unit

SLOTS_PER_TURN = 7 * 24 * 3600
"""Fixed, as in Apache's broker: TIMER_WHEEL_TTL_DAY days of seconds. A delay is rolled long before it takes a whole
turn."""

# A slot, big-endian:
#  0 time i64, in units of the precision | 8 first position i64 | 16 last position i64 | 24 count i32 | 28 magic i32 (0)
SLOT = struct.Struct(">qqqii")
NOTHING = -1
"""A position where no unit can be."""

READ_SIZE_BYTES = 1 << 20
BLOCK_SIZE_BYTES = 4096
"""Both are a whole number of slots."""

_EMPTY_BLOCK = bytes(BLOCK_SIZE_BYTES)


class Slot(NamedTuple):
    """The units due at one instant: timer log positions of the oldest and the newest one, and how many messages wait. A
    recalled message counts until it is due; recalling it twice makes the count one too small, as in Apache's broker."""

    time: int
    first_position: int = NOTHING
    last_position: int = NOTHING
    message_count: int = 0


class TimerWheel:
    """Every ``time`` here is in units of the precision: ms since the epoch / ``precision_ms``."""

    def __init__(self, path: str, disk: Disk, precision_ms: int):
        self.path = path
        self.precision_ms = precision_ms
        self.slot_count = 2 * SLOTS_PER_TURN
        self._disk = disk
        self._slots: dict[int, Slot] = {}
        self._changed: set[int] = set()
        self._file: File | None = None

    @property
    def size_bytes(self) -> int:
        return self.slot_count * SLOT.size

    def load(self, since: int, *, is_new: bool = False) -> None:
        """Reads the slots from ``since`` on that hold something. StorageError for a file of the wrong size. ``is_new``:
        no checkpoint mentions the wheel yet, so an empty file is left from a crash while it was made, and is
        removed."""
        self._slots.clear()
        self._changed.clear()
        self._file = None
        if not self._disk.is_file(self.path):
            return
        if is_new and self._disk.file_size(self.path) == 0:
            self._disk.unlink(self.path)
            return
        self._file = file = self._disk.open(self.path)
        if file.size() != self.size_bytes:
            raise StorageError(
                f"{self.path} is {file.size()} bytes long; a timer wheel has {self.size_bytes}",
                hint="remove it together with timerlog/ and set config/timercheck to zeros: they are made again from "
                "the commit log",
            )
        at = 0
        while (at := file.next_data(at)) < self.size_bytes:
            at -= at % SLOT.size
            data = file.pread(min(READ_SIZE_BYTES, self.size_bytes - at), at)
            for start in range(0, len(data), BLOCK_SIZE_BYTES):  # most of a sparse file is empty
                block = data[start : start + BLOCK_SIZE_BYTES]
                if block == _EMPTY_BLOCK or _newest_time(block) < since:
                    continue
                slots = enumerate(SLOT.iter_unpack(block), (at + start) // SLOT.size)
                for index, (time, first, last, count, _) in slots:
                    if time >= since and time > 0 and time % self.slot_count == index:
                        self._slots[index] = Slot(time, first, last, count)
            at += len(data)

    def slot(self, time: int) -> Slot:
        """The slot of that time; empty if the wheel holds nothing for it, because the place may belong to another
        turn."""
        found = self._slots.get(time % self.slot_count)
        return found if found is not None and found.time == time else Slot(time)

    def put(self, slot: Slot) -> None:
        """Replaces what was in the slot's place, whatever its time."""
        index = slot.time % self.slot_count
        self._slots[index] = slot
        self._changed.add(index)

    def count_since(self, time: int) -> int:
        """Messages that wait in the slots from ``time`` on."""
        return sum(slot.message_count for slot in self._slots.values() if slot.time >= time)

    def slots_since(self, time: int) -> list[Slot]:
        """The slots from ``time`` on, in order."""
        return sorted(slot for slot in self._slots.values() if slot.time >= time)

    def forget(self, time: int) -> None:
        """Drops a past slot from memory; the file keeps it until its place is used again."""
        index = time % self.slot_count
        if index not in self._changed and self.slot(time).last_position != NOTHING:
            del self._slots[index]

    def write(self) -> None:
        """Writes changed slots to the file. OSError; the next call then tries again."""
        if not self._changed:
            return
        if self._file is None:
            self._file = self._disk.open(self.path, create_size_bytes=self.size_bytes)
        data, end = bytearray(), -1
        for index in sorted(self._changed):
            if index != end and data:  # neighbours are one write
                self._file.pwrite(bytes(data), end * SLOT.size - len(data))
                data.clear()
            data += SLOT.pack(*self._slots[index], 0)
            end = index + 1
        self._file.pwrite(bytes(data), end * SLOT.size - len(data))
        self._changed.clear()

    def sync(self) -> None:
        """Written slots are on the device at return, but not the file's name. Any thread."""
        if self._file is not None:
            self._file.fdatasync()


def _newest_time(block: bytes) -> int:
    """The latest time of the slots. After a turn, most of a wheel is past and need not be unpacked."""
    numbers = array("q", block)
    if sys.byteorder == "little":
        numbers.byteswap()
    return max(numbers[:: SLOT.size // 8])


WALK_UNITS = 1024
"""Units of a slot's chain read in one step: a millisecond's work."""


class DueSlot:
    """First ``walk`` goes back along the chain, step by step; then the units are taken in the order in which they came.
    Units before ``start_position`` were delivered earlier; a recall among them still counts."""

    def __init__(self, slot: Slot, log: TimerLog, start_position: int = 0):
        self.time = slot.time
        self.delete_units: list[Unit] = []
        """The units that recall others; complete when ``is_walked``."""
        self.is_walked = False
        self.recalled: set[str] | None = None
        """The keys of the recalled messages; None until the user has read ``delete_units``."""
        self._log = log
        self._chain = log.chain(slot.last_position)
        self._start_position = start_position
        self._positions = array("q")

    def walk(self) -> None:
        """Reads some more units of the chain."""
        for _ in range(WALK_UNITS):
            unit = next(self._chain, None)
            if unit is None:
                self.is_walked = True
                return
            if unit.is_recall:
                self.delete_units.append(unit)
            elif unit.position >= self._start_position:
                self._positions.append(unit.position)

    @property
    def is_done(self) -> bool:
        return self.is_walked and not self._positions and (self.recalled is not None or not self.delete_units)

    @property
    def next_position(self) -> int:
        """Timer log position of the first unit that is not passed yet."""
        return self._positions[-1] if self.is_walked and self._positions else self._start_position

    def portion(self, count: int) -> list[Unit]:
        """The next units, oldest first. They stay the next ones until they are ``passed``."""
        assert self.is_walked
        while positions := self._positions[: -count - 1 : -1]:
            if units := [unit for unit in self._log.units(positions) if unit is not None]:
                return units
            del self._positions[-len(positions) :]  # their file is gone, and so are the messages
        return []

    def passed(self, position: int) -> None:
        """Takes note that the units up to the one at ``position`` are dealt with."""
        while self._positions and self._positions[-1] <= position:
            self._start_position = self._positions.pop() + 1
