"""Checks timers: whether each slot of the wheel that is still to come leads to its units in the timer log, and each
unit to its message. Past slots are not checked, because no broker reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.java.java_hash import java_hash
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import TIMER_TOPIC
from rmqserver.store.checks.findings.finding import FindingKind
from rmqserver.store.checks.found_files import FILES_OPEN_MAX, FoundFiles
from rmqserver.store.checks.survey import Survey
from rmqserver.store.disk.disk import Disk
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
    """``is_doubt``: it may be no fault."""

    kind: FindingKind
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
        """The faults of the checkpoint, and the first difference of the wheel and its log, on that disk, which holds
        the store or what a start leaves of it. ``log`` is the commit log, ``queue_end`` the end of the timer topic's
        queue. Writes nothing."""
        look = _Look(self._found, disk, log, self._messages, now_ms)
        yield from look.at_checkpoint(queue_end)
        if (difference := next(look.differences(), None)) is not None:
            yield difference


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
            yield self._of_checkpoint(f"{size:,} bytes, where it has {TIMER_CHECK_SIZE_BYTES:,}", 0)
        if taken_in > queue_end:
            yield self._of_checkpoint(f"timers are taken in up to {taken_in}, the queue ends at {queue_end}", 16)
        if saved.read_time_ms > saved.version_timestamp_ms + _AHEAD_MAX_MS and not is_of_a_slave:
            what = f"timers are delivered up to {saved.read_time_ms}, as was known at {saved.version_timestamp_ms}"
            yield self._of_checkpoint(what, 0)
        elif self._files.bases and saved.read_time_ms < saved.version_timestamp_ms - _BEHIND_MAX_MS:
            what = f"timers are delivered only up to {saved.read_time_ms}, as was known at {saved.version_timestamp_ms}"
            yield self._of_checkpoint(what, 0)._replace(is_doubt=True)
        if any(data[TIMER_CHECK_FIELDS_BYTES:NOTE_AT]):
            yield self._of_checkpoint("bytes behind its fields that no broker writes", TIMER_CHECK_FIELDS_BYTES)
        if any(note) and DeliveryNote.unpack_untrusted(note) is None:
            yield self._of_checkpoint("its note of deliveries does not have its checksum", NOTE_AT)

    def _of_checkpoint(self, what: str, at: int) -> TimerFault:
        return TimerFault(FindingKind.TIMER_CHECK, what, self._below(self._paths.check), at)

    def differences(self) -> Iterator[TimerFault]:
        """The wheel first, then the timer log, then messages."""
        for odd in self._files.odd:
            what = "the file before this one is not there" if odd.is_gap else f"{odd.size_bytes:,} bytes, or a stray"
            yield self._differs(what, f"{self._paths.log}/{odd.name}")
        wheel = TimerWheel(self._paths.wheel, OverlayDisk(self._disk), self._precision_ms)
        try:
            wheel.load(self._since)
        except StorageError as error:
            yield self._differs(str(error), self._paths.wheel, 0)
            return
        for slot in wheel.slots_since(self._since):
            if problem := self._problem_of(slot):
                at, due_ms = slot.time % wheel.slot_count * SLOT.size, slot.time * self._precision_ms
                is_late = slot.message_count > 0 and slot.time < self._earliest_kept
                lost_messages = slot.message_count if is_late else 0
                yield self._differs(problem, wheel.path, at, lost_messages=lost_messages, due_ms=due_ms)
        yield from self._of_units()

    def _differs(self, what: str, path: str, at: int | None = None, **more: Any) -> TimerFault:
        what = f"differs from the log, first here: {what}"
        return TimerFault(FindingKind.TIMERS_DIFFER, what, self._below(path), at, **more)

    def _problem_of(self, slot: Slot) -> str:
        """What is wrong with a slot or its units; empty if nothing is."""
        if slot.message_count > 0 and slot.time < self._earliest_kept:
            return f"{slot.message_count} timers of a time that the wheel no longer reaches: never delivered"
        units = list(self._timer_log.chain(slot.last_position))
        self._reached.update(unit.position for unit in units)
        ends = (units[-1].position, units[0].position) if units else (NOTHING, NOTHING)
        count = sum(-1 if unit.is_delete else 1 for unit in units)
        is_right = ends == (slot.first_position, slot.last_position) and count == slot.message_count
        if is_right and all(self._time_of(unit) == slot.time for unit in units):
            return ""
        return f"a slot of {slot.message_count} messages leads to {count} of the timer log, or to others"

    def _time_of(self, unit: Unit) -> int:
        return unit.slot_time_ms // self._precision_ms

    def _of_units(self) -> Iterator[TimerFault]:
        """Units that are still to come, and messages without a unit."""
        end = self._files.min_offset
        known: set[int] = set()
        is_flushed_to_a_unit = self._saved.log_position <= end
        for unit in self._timer_log.scan(end):
            is_flushed_to_a_unit |= self._saved.log_position in (unit.position, unit.position + unit.size_bytes)
            end = unit.position + unit.size_bytes
            known.add(unit.log_offset)
            if self._time_of(unit) < self._since:
                continue
            is_reached = unit.position in self._reached
            if not is_reached or not self._is_of_its_message(unit):
                base = self._files.base_of(unit.position)
                yield self._differs(
                    "this unit is not that of its message" if is_reached else "no slot of the wheel leads to this unit",
                    self._files.path(base), unit.position - base, log_offset=unit.log_offset,
                    lost_messages=int(not is_reached), due_ms=unit.slot_time_ms,
                )  # fmt: skip
        for message in self._messages:
            if message.queue_offset < self._saved.queue_offset and message.log_offset not in known:
                yield self._differs(
                    f"the message at queue offset {message.queue_offset} has no unit", self._paths.log,
                    log_offset=message.log_offset, lost_messages=1, due_ms=message.out_ms,
                )  # fmt: skip
        if not is_flushed_to_a_unit or self._saved.log_position > end:
            yield self._of_checkpoint(f"at {self._saved.log_position}, the end of the timer log, no unit begins", 8)

    def _is_of_its_message(self, unit: Unit) -> bool:
        message = _decoded(self._log.read(unit.log_offset, unit.message_size_bytes), unit.log_offset)
        if message is None or message.topic != TIMER_TOPIC or message.size_bytes != unit.message_size_bytes:
            return False
        properties = message.properties
        out_text = properties.get(props.TIMER_OUT_MS, "")
        is_due = unit.is_roll or not out_text.isdigit() or int(out_text) // self._precision_ms == self._time_of(unit)
        is_recall = props.TIMER_DELETE_UNIQUE_KEY in properties
        is_counted = unit.topic_hash in (java_hash(properties.get(props.REAL_TOPIC, "")), 0)
        return is_due and is_counted and unit.is_delete == is_recall


def _decoded(data: bytes, log_offset: int) -> StoredMessage | None:
    """The record; None if there is none with readable properties that belongs there."""
    try:
        message = decode_record_untrusted(data)
        _ = message.properties
    except ProtocolError:
        return None
    return message if message.log_offset == log_offset else None
