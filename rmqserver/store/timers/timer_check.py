"""The ``config/timercheck`` file: how far timers are read into the wheel, and up to when they were delivered
(``TimerCheckpoint``, 5.5.0). Behind that, in our broker only, it tells how far a killed process came. It may be about
another log: it may come from another store, from a copy that was made after the log's, from a former master, or from a
hand."""

from __future__ import annotations

import itertools
import logging
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from rmqproto.errors import ProtocolError
from rmqproto.message.properties import TIMER_OUT_MS
from rmqproto.message.record import decode_record_untrusted
from rmqproto.names import TIMER_TOPIC
from rmqserver.store.disk.disk import Disk
from rmqserver.store.timers.log import UNIT_SIZE_BYTES, TimerLog

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore

TIMER_CHECK_SIZE_BYTES = 4096

# Big-endian, the rest zero:
#  0 lastReadTimeMs i64 | 8 lastTimerLogFlushPos i64 | 16 lastTimerQueueOffset i64 | 24 masterTimerQueueOffset i64
# 32 data version: stateVersion i64 | 40 timestamp i64 | 48 counter i64
_LAYOUT = struct.Struct(">7q")
TIMER_CHECK_FIELDS_BYTES = _LAYOUT.size

# Ours, from byte 512 on, so that it lies in a sector of its own: CRC of what follows u32 | its size u16
# | size of the kept id u8 | slots u8, deliveries u8 | the kept id | opened time i64 | queue offset i64
# | slots: time i64, next position i64 | deliveries: log offset i64, slot time i64, passed i64
NOTE_AT = 512
_NOTE_HEAD = struct.Struct(">IHBBB")
_CRC_SIZE_BYTES = 4
_NOTE_TIMES = struct.Struct(">qq")
_NOTE_SLOT = struct.Struct(">qq")
_NOTE_DELIVERY = struct.Struct(">qqq")
NOTE_SIZE_MAX_BYTES = TIMER_CHECK_SIZE_BYTES - NOTE_AT
NOTE_SLOTS_MAX = 128
"""Slots that may be under delivery at a time: a note has room for this many."""
NOTE_DELIVERIES_MAX = 32

FROM_QUEUE = -1
"""Replaces a slot's time: the message was due when it was read, and never had a slot."""


@dataclass(slots=True)
class TimerCheckpoint:
    """Everything due before ``read_time_ms`` was delivered, with its copies on the device. The timer topic's queue is
    in the wheel up to ``queue_offset``, and the timer log is on the device up to ``log_position``."""

    read_time_ms: int = 0
    log_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    version_timestamp_ms: int = 0
    version_counter: int = 0

    @classmethod
    def read(cls, disk: Disk, path: str) -> TimerCheckpoint:
        """Reads the file; all zero if it is missing or too short."""
        data = disk.read_bytes(path) if disk.is_file(path) else b""
        return cls(*_LAYOUT.unpack_from(data)) if len(data) >= _LAYOUT.size else cls()

    @classmethod
    def of_master_untrusted(cls, data: bytes) -> TimerCheckpoint:
        """What a slave keeps of its master's answer to 60, of at least 56 bytes. The slave has no wheel and no timer
        log: when it becomes master it reads the timer topic's queue from its start. Messages that the master had taken
        in (before ``master_queue_offset``) and that were due before ``read_time_ms`` are delivered."""
        master = cls(*_LAYOUT.unpack_from(data))
        taken_in = max(master.queue_offset, master.master_queue_offset)
        return replace(master, log_position=0, queue_offset=0, master_queue_offset=taken_in)

    @property
    def delivered_of_master(self) -> tuple[int, int]:
        """(queue offset, time in ms): a master delivered the messages before both, and no wheel here has them. Queue
        offset 0: there are none."""
        behind = self.master_queue_offset if self.master_queue_offset > self.queue_offset else 0
        return behind, self.read_time_ms

    def packed(self) -> bytes:
        """The 56 bytes of the file, and of the answer to 60 GET_TIMER_CHECK_POINT."""
        return _LAYOUT.pack(
            self.read_time_ms, self.log_position, self.queue_offset, self.master_queue_offset,
            self.state_version, self.version_timestamp_ms, self.version_counter,
        )  # fmt: skip

    def write(self, disk: Disk, path: str) -> None:
        """On the device at return, except the file's name. In place: 56 bytes at the start of a sector are written
        whole or not at all."""
        file = disk.open(path, create_size_bytes=TIMER_CHECK_SIZE_BYTES)
        file.pwrite(self.packed(), 0)
        file.fdatasync()

    def write_alone(self, disk: Disk, path: str) -> None:
        """As ``write``, and removes the note behind it."""
        file = disk.open(path, create_size_bytes=TIMER_CHECK_SIZE_BYTES)
        file.pwrite(self.packed().ljust(TIMER_CHECK_SIZE_BYTES, b"\0"), 0)
        file.fdatasync()


class NotedCopy(NamedTuple):
    """A copy put at ``log_offset``. Once it is in the log, its slot is passed up to the timer log position ``passed``;
    or, for FROM_QUEUE, the timer topic's queue up to that queue offset."""

    log_offset: int
    slot_time: int
    passed: int


@dataclass(frozen=True, slots=True)
class DeliveryNote:
    """How far a process has come, according to the page cache: true after kill -9 in the same run of the operating
    system, worthless after a power cut. ``slots``: for each slot up to ``opened_time`` that still held something, the
    timer log position from which on it was not delivered. The note is written before the log; ``deliveries`` tell what
    changes if their records are in the log."""

    kept_id: str
    opened_time: int
    queue_offset: int
    slots: dict[int, int] = field(default_factory=dict)
    deliveries: Sequence[NotedCopy] = ()

    def packed(self) -> bytes:
        assert len(self.slots) <= NOTE_SLOTS_MAX
        assert len(self.deliveries) <= NOTE_DELIVERIES_MAX
        kept_id = self.kept_id.encode()
        rest = b"".join((
            kept_id, _NOTE_TIMES.pack(self.opened_time, self.queue_offset),
            *(_NOTE_SLOT.pack(*entry) for entry in sorted(self.slots.items())),
            *(_NOTE_DELIVERY.pack(*delivery) for delivery in self.deliveries),
        ))  # fmt: skip
        counts = len(rest), len(kept_id), len(self.slots), len(self.deliveries)
        checked = _NOTE_HEAD.pack(0, *counts)[_CRC_SIZE_BYTES:] + rest
        return crc32(checked).to_bytes(_CRC_SIZE_BYTES, "big") + checked

    def write(self, disk: Disk, path: str) -> None:
        """Writes to the page cache only."""
        disk.open(path, create_size_bytes=TIMER_CHECK_SIZE_BYTES).pwrite(self.packed(), NOTE_AT)

    @classmethod
    def read(cls, disk: Disk, path: str) -> DeliveryNote | None:
        """None if there is none, or if it is damaged or from another run of the operating system."""
        if not disk.is_file(path):
            return None
        note = cls.unpack_untrusted(disk.read_bytes(path)[NOTE_AT:])
        return note if note is not None and note.kept_id and note.kept_id == disk.kept_id(path) else None

    @classmethod
    def unpack_untrusted(cls, data: bytes) -> DeliveryNote | None:
        if len(data) < _NOTE_HEAD.size:
            return None
        crc, size, kept_size, slot_count, delivery_count = _NOTE_HEAD.unpack_from(data)
        times_at = _NOTE_HEAD.size + kept_size
        slots_at = times_at + _NOTE_TIMES.size
        deliveries_at = slots_at + slot_count * _NOTE_SLOT.size
        end = deliveries_at + delivery_count * _NOTE_DELIVERY.size
        if end != _NOTE_HEAD.size + size or end > len(data) or crc32(data[_CRC_SIZE_BYTES:end]) != crc:
            return None
        kept_id = data[_NOTE_HEAD.size : times_at].decode("ascii", "replace")
        opened_time, queue_offset = _NOTE_TIMES.unpack_from(data, times_at)
        slots = dict(_NOTE_SLOT.iter_unpack(data[slots_at:deliveries_at]))
        deliveries = tuple(map(NotedCopy._make, _NOTE_DELIVERY.iter_unpack(data[deliveries_at:end])))
        return cls(kept_id, opened_time, queue_offset, slots, deliveries)

    def settled(self, log_end_offset: int) -> DeliveryNote:
        """The note for a log that ends at ``log_end_offset``: the deliveries that are in it are done."""
        slots, queue_offset = dict(self.slots), self.queue_offset
        for log_offset, slot_time, passed in self.deliveries:
            if log_offset >= log_end_offset:
                break
            if slot_time == FROM_QUEUE:
                queue_offset = passed
            else:
                slots[slot_time] = passed
        return DeliveryNote(self.kept_id, self.opened_time, queue_offset, slots)


UNITS_LOOKED_AT = 1024
"""Units at the end of the timer log among which the newest timer is looked for."""

LATE_MAX_MS = 10_000
"""A broker that runs delivers no later than this: what was due before the log's last record by more was delivered,
whatever another store's checkpoint says."""

DIGITS_MAX = 18
"""The most digits of a time, so that it fits Java's long."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogState:
    """What a start has to know of the commit log."""

    end_offset: int
    """Log offset behind its last record."""
    offset_at: Callable[[int], int | None]
    """The log offset of the record at a queue offset of the timer topic's queue, or of the first record behind it; None
    if there is none."""
    queue_end: int
    """The queue offset behind that queue's last message."""
    newest_ms: int
    """The store time of the log's last record; 0 if it has none."""
    out_ms_at: Callable[[int], int | None]
    """When the message at a queue offset of that queue is due; None if it does not say."""


def log_state(store: MessageStore) -> LogState:
    """The state of an open store's log."""

    def offset_at(queue_offset: int) -> int | None:
        queue = store.queues.find(TIMER_TOPIC, 0)
        unit = queue.unit(max(queue_offset, queue.min_offset)) if queue is not None else None
        return unit[0] if unit is not None else None

    def out_ms_at(queue_offset: int) -> int | None:
        found = store.get(TIMER_TOPIC, 0, queue_offset, 1).records()
        if not found:
            return None
        try:
            text = decode_record_untrusted(found[0]).properties.get(TIMER_OUT_MS, "")
        except ProtocolError:
            return None
        return int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else None

    return LogState(
        store.written_offset, offset_at, store.max_offset(TIMER_TOPIC, 0), store.newest_store_time_ms, out_ms_at
    )


def true_checkpoint(found: TimerCheckpoint, log: LogState, timer_log: TimerLog, precision_ms: int) -> TimerCheckpoint:
    """The checkpoint as far as the log confirms it. Nothing was delivered that was due after the log's last record was
    stored: the copy would be in the log. If the wheel may lack messages that the checkpoint calls taken in, the timer
    topic's queue is read again from its start."""
    newest_ms = log.newest_ms - log.newest_ms % precision_ms
    saved = replace(found, read_time_ms=min(found.read_time_ms, newest_ms))
    if not (found.queue_offset or found.log_position):  # a slave's
        return replace(saved, master_queue_offset=min(found.master_queue_offset, log.queue_end))
    why = _why_not_of(saved, log, timer_log, precision_ms)
    if not why:
        return saved
    _log.warning(
        "event=timers-read-again queue_offset=%d log_position=%d reason='%s'",
        found.queue_offset, found.log_position, why,
    )  # fmt: skip
    taken_in = min(found.queue_offset, log.queue_end)
    read_time_ms = max(saved.read_time_ms, newest_ms - LATE_MAX_MS)
    return replace(saved, read_time_ms=read_time_ms, queue_offset=0, log_position=0, master_queue_offset=taken_in)


def _why_not_of(saved: TimerCheckpoint, log: LogState, timer_log: TimerLog, precision_ms: int) -> str:
    """Why the checkpoint cannot be about this log and this timer log; empty if it can."""
    if saved.queue_offset > log.queue_end:
        return f"the queue of timers ends at {log.queue_end}"
    position, segments = saved.log_position, timer_log.segments
    last = timer_log.unit(position - UNIT_SIZE_BYTES) if position else None
    if position > segments.min_offset and last is None and position % segments.file_size_bytes:
        return f"the timer log has no unit before {position}"
    start = max(position - UNITS_LOOKED_AT * UNIT_SIZE_BYTES, segments.base_of(max(position - 1, 0)))
    next_log_offset = log.offset_at(saved.queue_offset)
    before = itertools.takewhile(lambda unit: unit.position < position, timer_log.scan(start))
    if next_log_offset is not None and any(unit.log_offset >= next_log_offset for unit in before):
        return f"the timer log has timers behind queue offset {saved.queue_offset}"
    taken_in = saved.queue_offset - 1
    log_offset = log.offset_at(taken_in) if taken_in >= 0 else None
    out_ms = log.out_ms_at(taken_in) if log_offset is not None else None
    if log_offset is None or out_ms is None or out_ms < saved.read_time_ms + precision_ms:
        return ""
    if any(unit.log_offset >= log_offset for unit in timer_log.scan(start)):
        return ""
    return f"the timer at queue offset {taken_in} is not in the timer log"
