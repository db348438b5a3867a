"""Checks timers: whether the slots of the wheel that are still to come lead, by way of the timer log, to the messages
that wait. Past slots are not checked, because no broker reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rmqproto.errors import StorageError
from rmqproto.message import properties as props
from rmqproto.names import TIMER_TOPIC
from rmqserver.store.checks.finding import FindingKind
from rmqserver.store.checks.found_files import FILES_OPEN_MAX, FoundFiles
from rmqserver.store.checks.survey import Survey
from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.timers.log import TimerLog, Unit
from rmqserver.store.timers.timer_check import NOTE_AT, TIMER_CHECK_SIZE_BYTES, DeliveryNote, TimerCheckpoint
from rmqserver.store.timers.timer_store import LATEST_SLOTS_KEPT
from rmqserver.store.timers.wheel import NOTHING, Slot, TimerWheel

_AHEAD_MAX_MS = 60_000
_BEHIND_MAX_MS = 3_600_000
"""How far the time up to which timers are delivered can be ahead of, or behind, the time when the checkpoint was
saved."""


class TimerFault(NamedTuple):
    """``is_doubt``: it may be no fault."""

    kind: FindingKind
    what: str
    path: str
    log_offset: int | None = None
    lost_messages: int = 0
    due_ms: int | None = None
    is_doubt: bool = False


class WaitingMessage(NamedTuple):
    """A message of the timer topic; ``out_ms`` is when it is due."""

    queue_offset: int
    size_bytes: int
    out_ms: int


class WheelCheck:
    """``take`` every record, then ask for ``faults``."""

    def __init__(self, found: Survey):
        self._found = found
        self._since_ms = TimerCheckpoint.read(found.disk, found.timer_paths.check).read_time_ms
        self._messages: dict[int, WaitingMessage] = {}
        """By log offset."""
        self._newest_ms = 0
        """The latest store time. The clock may have gone back since."""

    def take(self, records: Sequence[FoundRecord]) -> None:
        self._newest_ms = max(self._newest_ms, max(record.store_timestamp_ms for record in records))
        for record in records:
            if record.topic == TIMER_TOPIC:
                text = props.find_bytes(record.properties, b"TIMER_OUT_MS\x01")
                if text.isdigit() and int(text) >= self._since_ms:
                    message = WaitingMessage(record.queue_offset, record.size_bytes, int(text))
                    self._messages[record.log_offset] = message

    def faults(self, disk: Disk, queue_end: int, now_ms: int) -> Iterator[TimerFault]:
        """The faults of the checkpoint, and the first difference between the wheel and the messages, on that disk,
        which holds the store or what a start leaves of it. ``queue_end`` is the end of the timer topic's queue. Writes
        nothing."""
        saved = TimerCheckpoint.read(disk, self._found.timer_paths.check)
        yield from self._of_checkpoint(disk, saved, queue_end)
        if (difference := next(self._differences(disk, saved, now_ms), None)) is not None:
            yield difference

    def _of_checkpoint(self, disk: Disk, saved: TimerCheckpoint, queue_end: int) -> Iterator[TimerFault]:
        path = self._found.timer_paths.check
        data = disk.read_bytes(path) if disk.is_file(path) else None
        if data is None:
            return
        # A slave saves its master's progress; the master saved that some time ago, and may have come further.
        is_of_a_slave = not saved.log_position and not saved.queue_offset
        taken_in = 0 if is_of_a_slave else max(saved.queue_offset, saved.master_queue_offset)
        known_ms = max(saved.version_timestamp_ms, min(self._newest_ms, saved.read_time_ms))
        ahead_ms = 0 if is_of_a_slave else saved.read_time_ms - known_ms
        delivered = f"timers are delivered up to {saved.read_time_ms}, as was known at {saved.version_timestamp_ms}"
        for is_so, what in (
            (len(data) != TIMER_CHECK_SIZE_BYTES, f"{len(data):,} bytes, where it has {TIMER_CHECK_SIZE_BYTES:,}"),
            (taken_in > queue_end, f"timers are taken in up to {taken_in}, the queue ends at {queue_end}"),
            (ahead_ms > _AHEAD_MAX_MS, delivered),
            (
                any(data[NOTE_AT:]) and DeliveryNote.unpack_untrusted(data[NOTE_AT:]) is None,
                "its note of deliveries does not have its checksum",
            ),
        ):
            if is_so:
                yield TimerFault(FindingKind.TIMER_CHECK, what, self._found.below(path))
        if ahead_ms < -_BEHIND_MAX_MS and disk.listdir(self._found.timer_paths.log):
            yield TimerFault(FindingKind.TIMER_CHECK, delivered, self._found.below(path), is_doubt=True)

    def _differences(self, disk: Disk, saved: TimerCheckpoint, now_ms: int) -> Iterator[TimerFault]:
        """Of the files first, then of slots, then of messages."""
        paths, precision_ms = self._found.timer_paths, self._found.timer_options.precision_ms
        size, since = self._found.timer_options.log_file_size_bytes, saved.read_time_ms // precision_ms
        log = TimerLog(paths.log, size, disk, FileCache(disk, 0))
        log.segments = files = FoundFiles(paths.log, size, disk, FileCache(disk, FILES_OPEN_MAX, read_only=True))
        for odd in files.odd:
            what = "the file before this one is not there" if odd.is_gap else f"{odd.size_bytes:,} bytes, or a stray"
            yield self._differs(what, f"{paths.log}/{odd.name}")
        wheel = TimerWheel(paths.wheel, OverlayDisk(disk), precision_ms)
        try:
            wheel.load(since)
        except StorageError as error:
            yield self._differs(str(error), paths.wheel)
            return
        reached: set[int] = set()
        for slot in wheel.slots_since(since):
            units, due_ms = list(log.chain(slot.last_position)), slot.time * precision_ms
            reached.update(unit.log_offset for unit in units)
            if slot.message_count > 0 and slot.time < now_ms // precision_ms - LATEST_SLOTS_KEPT:
                what = f"{slot.message_count} timers of a time that the wheel no longer reaches: never delivered"
                yield self._differs(what, wheel.path, lost_messages=slot.message_count, due_ms=due_ms)
            elif not self._is_right(slot, units, precision_ms):
                what = f"a slot of {slot.message_count} messages does not lead to just these in the timer log"
                yield self._differs(what, wheel.path, due_ms=due_ms)
        missing = {at: each for at, each in self._messages.items() if each.queue_offset < saved.queue_offset}
        for unit in log.scan(files.min_offset) if missing.keys() - reached else ():
            if unit.slot_time_ms // precision_ms < since:  # rolled, and stored again since
                reached.add(unit.log_offset)
        for log_offset in sorted(missing.keys() - reached):
            message = missing[log_offset]
            what = f"no slot of the wheel leads to the message at queue offset {message.queue_offset}"
            yield self._differs(what, paths.wheel, log_offset, lost_messages=1, due_ms=message.out_ms)

    def _is_right(self, slot: Slot, units: Sequence[Unit], precision_ms: int) -> bool:
        """Whether the slot's units, newest first, are those of its messages."""
        ends = (units[-1].position, units[0].position) if units else (NOTHING, NOTHING)
        count = sum(-1 if unit.is_delete else 1 for unit in units)
        if ends != (slot.first_position, slot.last_position) or count != slot.message_count:
            return False
        for unit in units:
            message = self._messages.get(unit.log_offset)
            if message is None or message.size_bytes != unit.message_size_bytes:
                return False
            due = unit.slot_time_ms // precision_ms
            if due != slot.time or (message.out_ms // precision_ms != due and not unit.is_roll):
                return False
        return True

    def _differs(
        self, what: str, path: str, log_offset: int | None = None, *, lost_messages: int = 0, due_ms: int | None = None
    ) -> TimerFault:
        what, path = f"differs from the log, first here: {what}", self._found.below(path)
        return TimerFault(FindingKind.TIMERS_DIFFER, what, path, log_offset, lost_messages, due_ms)
