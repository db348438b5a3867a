"""Checks timers: whether each slot of the wheel that is still to come leads to its units in the timer log, and each
unit to its message. Past slots are not checked, because no broker reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.java.java_hash import java_hash
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import TIMER_TOPIC
from rmqserver.store.checks.findings.finding import FindingKind
from rmqserver.store.checks.found_files import FILES_OPEN_MAX, FoundFiles
from rmqserver.store.checks.survey import Survey
from rmqserver.store.disk.disk import Disk, is_empty
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.timers.log import TimerLog, Unit
from rmqserver.store.timers.timer_check import (
    NOTE_AT,
    TIMER_CHECK_FIELDS_BYTES,
    TIMER_CHECK_SIZE_BYTES,
    DeliveryNote,
    TimerCheckpoint,
)
from rmqserver.store.timers.timer_store import LATEST_SLOTS_KEPT
from rmqserver.store.timers.wheel import NOTHING, SLOT, Slot, TimerWheel

_AHEAD_MAX_MS = 60_000
_BEHIND_MAX_MS = 3_600_000
"""How far the time up to which timers are delivered can be ahead of, or behind, the time when the checkpoint was
saved."""


class TimerFault(NamedTuple):
    """``key`` identifies the same fault in two looks at a store. ``is_doubt``: it may be no fault."""

    kind: FindingKind
    key: tuple[object, ...]
    what: str
    path: str
    at: int | None = None
    log_offset: int | None = None
    lost_messages: int = 0
    due_ms: int | None = None
    is_doubt: bool = False


class WaitingMessage(NamedTuple):
    """A message of the timer topic; ``out_ms`` is when it is due."""

    queue_offset: int
    log_offset: int
    out_ms: int


class WheelCheck:
    """``take`` every record, then ask for ``faults``."""

    def __init__(self, found: Survey):
        self._found = found
        self._since_ms = TimerCheckpoint.read(found.disk, found.timer_paths.check).read_time_ms
        self._messages: list[WaitingMessage] = []

    def take(self, records: Sequence[FoundRecord]) -> None:
        for record in records:
            if record.topic == TIMER_TOPIC:
                text = props.find_bytes(record.properties, b"TIMER_OUT_MS\x01")
                if text.isdigit() and int(text) >= self._since_ms:
                    self._messages.append(WaitingMessage(record.queue_offset, record.log_offset, int(text)))

    def faults(self, disk: Disk, log: FoundFiles, queue_end: int, now_ms: int) -> Iterator[TimerFault]:
        """The faults of the timers on that disk, which holds the store or what a start leaves of it. ``log`` is the
        commit log, ``queue_end`` the end of the timer topic's queue. Writes nothing."""
        look = _Look(self._found, disk, log, self._messages, now_ms)
        yield from look.at_checkpoint(queue_end)
        yield from look.at_files()


class _Look:
    """One look at the timers of one disk."""

    def __init__(self, found: Survey, disk: Disk, log: FoundFiles, messages: Sequence[WaitingMessage], now_ms: int):
        self._disk = disk
        self._log = log
        self._messages = messages
        self._precision_ms = precision_ms = found.timer_options.precision_ms
        self._earliest_kept = now_ms // precision_ms - LATEST_SLOTS_KEPT
        self._paths = found.timer_paths
        self._below = found.below
        self._saved = TimerCheckpoint.read(disk, self._paths.check)
        self._since = self._saved.read_time_ms // precision_ms
        size = found.timer_options.log_file_size_bytes
        self._files = FoundFiles(self._paths.log, size, disk, FileCache(disk, FILES_OPEN_MAX, read_only=True))
        self._timer_log = TimerLog(self._paths.log, size, disk, FileCache(disk, 0))
        self._timer_log.segments = self._files
        self._reached: set[int] = set()
        """Timer log positions of the units to which slots lead."""

    def at_checkpoint(self, queue_end: int) -> Iterator[TimerFault]:
        if not self._disk.is_file(self._paths.check):
            return
        saved, size = self._saved, self._disk.file_size(self._paths.check)
        data = self._disk.read_bytes(self._paths.check)
        # A slave saves its master's progress; the master saved that some time ago, and may have come further.
        is_of_a_slave = not saved.log_position and not saved.queue_offset
        taken_in = 0 if is_of_a_slave else max(saved.queue_offset, saved.master_queue_offset)
        note = data[NOTE_AT:]
        if size != TIMER_CHECK_SIZE_BYTES:
            yield self._of_checkpoint("size", f"{size:,} bytes, where it has {TIMER_CHECK_SIZE_BYTES:,}", 0)
        if taken_in > queue_end:
            yield self._of_checkpoint(
                "queue", f"timers are taken in up to {taken_in}, the queue ends at {queue_end}", 16
            )
        if saved.read_time_ms > saved.version_timestamp_ms + _AHEAD_MAX_MS and not is_of_a_slave:
            what = f"timers are delivered up to {saved.read_time_ms}, as was known at {saved.version_timestamp_ms}"
            yield self._of_checkpoint("time", what, 0)
        elif self._files.bases and saved.read_time_ms < saved.version_timestamp_ms - _BEHIND_MAX_MS:
            what = f"timers are delivered only up to {saved.read_time_ms}, as was known at {saved.version_timestamp_ms}"
            yield self._of_checkpoint("time", what, 0)._replace(is_doubt=True)
        if any(data[TIMER_CHECK_FIELDS_BYTES:NOTE_AT]):
            yield self._of_checkpoint("rest", "bytes behind its fields that no broker writes", TIMER_CHECK_FIELDS_BYTES)
        if any(note) and DeliveryNote.unpack_untrusted(note) is None:
            yield self._of_checkpoint("note", "its note of deliveries does not have its checksum", NOTE_AT)

    def _of_checkpoint(self, key: str, what: str, at: int) -> TimerFault:
        return TimerFault(FindingKind.TIMER_CHECK, (key,), what, self._below(self._paths.check), at)

    def at_files(self) -> Iterator[TimerFault]:
        for odd in self._files.odd:
            what = "the file before this one is not there" if odd.is_gap else f"{odd.size_bytes:,} bytes, or a stray"
            yield TimerFault(
                FindingKind.TIMER_LOG, ("file", odd.name), what, self._below(f"{self._paths.log}/{odd.name}")
            )
        wheel = TimerWheel(self._paths.wheel, OverlayDisk(self._disk), self._precision_ms)
        try:
            wheel.load(self._since)
        except StorageError as error:
            yield TimerFault(FindingKind.TIMER_WHEEL, ("size",), str(error), self._below(self._paths.wheel), 0)
            return
        for slot in wheel.slots_since(self._since):
            if slot.message_count > 0 and slot.time < self._earliest_kept:
                what = f"{slot.message_count} timers of a time that the wheel no longer reaches: never delivered"
                yield self._of_slot("late", wheel, slot, what, slot.message_count)
            if problems := self._problems_of(slot):
                yield self._of_slot("slot", wheel, slot, "; ".join(problems), 0)
        yield from self._of_units()

    def _of_slot(self, key: str, wheel: TimerWheel, slot: Slot, what: str, lost_messages: int) -> TimerFault:
        at, due_ms = slot.time % wheel.slot_count * SLOT.size, slot.time * self._precision_ms
        path = self._below(wheel.path)
        return TimerFault(FindingKind.TIMER_WHEEL, (key, slot.time), what, path, at, None, lost_messages, due_ms)

    def _problems_of(self, slot: Slot) -> list[str]:
        """The problems of a slot and of the units to which it leads."""
        units = list(self._timer_log.chain(slot.last_position))
        self._reached.update(unit.position for unit in units)
        count = sum(-1 if unit.is_delete else 1 for unit in units)
        problems = []
        if not units and slot.last_position != NOTHING:
            problems.append(f"it leads to timer log position {slot.last_position}, where no unit is")
        elif units and units[-1].position != slot.first_position:
            problems.append(f"it begins at {slot.first_position}, and its chain at {units[-1].position}")
        if any(self._time_of(unit) != slot.time for unit in units):
            problems.append("it leads to units of another time")
        if count != slot.message_count:
            problems.append(f"it counts {slot.message_count}, and has {count}")
        return problems

    def _time_of(self, unit: Unit) -> int:
        return unit.slot_time_ms // self._precision_ms

    def _of_units(self) -> Iterator[TimerFault]:
        """Faults of units that are still to come, and of messages without a unit."""
        end = self._files.min_offset
        known: set[int] = set()
        is_flushed_to_a_unit = self._saved.log_position <= end
        for unit in self._timer_log.scan(end):
            is_flushed_to_a_unit |= self._saved.log_position in (unit.position, unit.position + unit.size_bytes)
            end = unit.position + unit.size_bytes
            known.add(unit.log_offset)
            if self._time_of(unit) < self._since:
                continue
            if unit.position not in self._reached:
                yield self._of_unit(unit, FindingKind.TIMER_MISSING, "no slot of the wheel leads to this unit", 1)
            elif (problem := self._problem_of(unit)) is not None:
                yield self._of_unit(unit, FindingKind.TIMER_LOG, problem, 0)
        base = self._files.base_of(end)
        if base in self._files.bases and not is_empty(file := self._files.file(base), end - base, file.size()):
            path = self._below(self._files.path(base))
            what = "bytes behind the last unit that no broker has written"
            yield TimerFault(FindingKind.TIMER_LOG, ("rest", base), what, path, end - base, is_doubt=True)
        if self._saved.log_position > end:
            what = f"the timer log was flushed up to {self._saved.log_position}, and ends at {end}"
            yield self._of_checkpoint("log", what, 8)
        elif not is_flushed_to_a_unit:
            what = f"at {self._saved.log_position}, up to where the timer log was flushed, no unit begins"
            yield self._of_checkpoint("log", what, 8)
        for message in self._messages:
            if message.queue_offset < self._saved.queue_offset and message.log_offset not in known:
                yield TimerFault(
                    FindingKind.TIMER_MISSING, ("message", message.log_offset),
                    f"the message at queue offset {message.queue_offset} has no unit", self._below(self._paths.log),
                    None, message.log_offset, 1, message.out_ms,
                )  # fmt: skip

    def _of_unit(self, unit: Unit, kind: FindingKind, what: str, lost_messages: int) -> TimerFault:
        base = self._files.base_of(unit.position)
        return TimerFault(
            kind, ("unit", unit.position), what, self._below(self._files.path(base)), unit.position - base,
            unit.log_offset, lost_messages, unit.slot_time_ms,
        )  # fmt: skip

    def _problem_of(self, unit: Unit) -> str | None:
        """The mismatch between a waiting unit and its message."""
        if unit.log_offset < self._log.min_offset:
            return f"its message at log offset {unit.log_offset} has expired"
        message = _decoded(self._log.read(unit.log_offset, unit.message_size_bytes), unit.log_offset)
        if message is None or message.topic != TIMER_TOPIC or message.size_bytes != unit.message_size_bytes:
            return f"it points to log offset {unit.log_offset}, where no timer message of its size begins"
        properties = message.properties
        out_text = properties.get(props.TIMER_OUT_MS, "")
        if unit.is_delete != (props.TIMER_DELETE_UNIQUE_KEY in properties):
            return "it and its message do not agree on whether it recalls another"
        if not unit.is_roll and out_text.isdigit() and int(out_text) // self._precision_ms != self._time_of(unit):
            return f"it is due at {unit.slot_time_ms}, and its message at {out_text}"
        if unit.topic_hash not in (java_hash(properties.get(props.REAL_TOPIC, "")), 0):
            return "it is counted for another topic than its message's"
        return None


def _decoded(data: bytes, log_offset: int) -> StoredMessage | None:
    """The record; None if there is none with readable properties that belongs there."""
    try:
        message = decode_record_untrusted(data)
        _ = message.properties
    except ProtocolError:
        return None
    return message if message.log_offset == log_offset else None
