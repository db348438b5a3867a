"""The ``timerwheel`` file: for each second to come, which units of the timer log are due then (``TimerWheel`` and
``Slot``, 5.5.0). Slots that hold something are kept in memory; changed ones are written by ``write``. The file, 39 MB
and sparse, is made with the first one: Apache's broker makes a missing one, too.

The wheel is derived: the timer log, and behind it the commit log, decide. Recovery sets the slots anew.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import NamedTuple

from rmqproto.errors import StorageError
from rmqserver.store.disk.disk import Disk, File

SLOTS_PER_TURN = 7 * 24 * 3600
"""Fixed, as in Apache's broker: TIMER_WHEEL_TTL_DAY days of seconds. A delay is rolled long before it makes a whole
turn."""

# A slot, big-endian:
#  0 time i64, in units of the precision | 8 first position i64 | 16 last position i64 | 24 count i32 | 28 magic i32 (0)
SLOT = struct.Struct(">qqqii")
NOTHING = -1
"""The position of no unit."""

READ_SIZE_BYTES = 1 << 20
BLOCK_SIZE_BYTES = 4096
"""Both a whole number of slots."""

_EMPTY_BLOCK = bytes(BLOCK_SIZE_BYTES)


class Slot(NamedTuple):
    """The units due at one instant: the timer log offsets of the oldest and the newest one, and how many messages
    wait. A recalled message counts until it is due; recalling it twice makes the count one too small, as in Apache's
    broker."""

    time: int
    first_position: int = NOTHING
    last_position: int = NOTHING
    message_count: int = 0


class TimerWheel:
    """``time`` is everywhere in units of the precision: ms since the epoch / ``precision_ms``."""

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
        """Reads the slots from ``since`` on that hold something. StorageError for a file of another size. ``is_new``:
        no checkpoint speaks of it yet, so an empty file is what a crash left when it was made, and is removed."""
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
                if block != _EMPTY_BLOCK and _newest_time(block) >= since:
                    self._take(block, (at + start) // SLOT.size, since)
            at += len(data)

    def _take(self, block: bytes, first_index: int, since: int) -> None:
        for index, (time, first, last, count, _) in enumerate(SLOT.iter_unpack(block), first_index):
            if time >= since and time > 0 and time % self.slot_count == index:
                self._slots[index] = Slot(time, first, last, count)

    def slot(self, time: int) -> Slot:
        """Empty if the wheel holds none of that time: the place may be another turn's."""
        found = self._slots.get(time % self.slot_count)
        return found if found is not None and found.time == time else Slot(time)

    def put(self, slot: Slot) -> None:
        """Replaces what was there, whatever its time."""
        index = slot.time % self.slot_count
        self._slots[index] = slot
        self._changed.add(index)

    def count_since(self, time: int) -> int:
        """Messages that wait in the slots from ``time`` on."""
        return sum(slot.message_count for slot in self._slots.values() if slot.time >= time)

    def slots_since(self, time: int) -> list[Slot]:
        """What waits, by time."""
        return sorted(slot for slot in self._slots.values() if slot.time >= time)

    def forget(self, time: int) -> None:
        """A slot of the past needs no memory; the file keeps it until its place is used again."""
        index = time % self.slot_count
        if index not in self._changed and self.slot(time).last_position != NOTHING:
            del self._slots[index]

    def write(self) -> None:
        """Writes what changed to the file. OSError; the next call tries again what was not written."""
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
        """What was written is on the device at return, the file's name excepted. Any thread."""
        if self._file is not None:
            self._file.fdatasync()


def _newest_time(block: bytes) -> int:
    """The greatest time of the slots: most of a wheel that has turned is past, and need not be taken apart."""
    numbers = array("q", block)
    if sys.byteorder == "little":
        numbers.byteswap()
    return max(numbers[:: SLOT.size // 8])
