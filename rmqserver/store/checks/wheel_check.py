"""Checks timers: whether a start of our broker, as tried, would deliver just the messages that wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rmqproto.message import properties as props
from rmqproto.names import TIMER_TOPIC
from rmqproto.wording import counted
from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.dry_run import DryRun
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.found.survey import Survey
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.timers.log import Unit
from rmqserver.store.timers.timer_check import NOTE_AT, TIMER_CHECK_SIZE_BYTES, DeliveryNote, TimerCheckpoint
from rmqserver.store.timers.timer_store import TimerStore
from rmqserver.store.timers.wheel import NOTHING

MENDED, LEFT = "brings wheel and timer log together again", "leaves it"
HELD_BACK = "event=timers-held-back"

_AHEAD_MAX_MS = 60_000
_BEHIND_MAX_MS = 3_600_000
"""How far the time up to which timers are delivered can be ahead of, or behind, the time when the checkpoint was
saved."""


class WaitingMessage(NamedTuple):
    """A message of the timer topic; ``out_ms`` is when it is due."""

    queue_offset: int
    size_bytes: int
    out_ms: int


class WheelCheck:
    """``take`` every record, then ``add_all``."""

    def __init__(self, found: Survey, dry: DryRun):
        self._saved = TimerCheckpoint.read(found.disk, found.timer_paths.check)
        self._since_ms = (self._saved if dry.timers is None else dry.timers.saved).read_time_ms
        """Up to when timers are delivered, as far as the log confirms it."""
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

    def add_all(self, checked: CheckedStore) -> None:
        found, timers = checked.found, checked.dry.timers
        usual = Severity.WARNING if found.is_clean else Severity.NOTE
        path = found.below(found.timer_paths.check)
        for severity, what in self._of_checkpoint(found):
            checked.add(severity, FindingKind.TIMER_CHECK, what, path, topic=TIMER_TOPIC, becomes=LEFT)
        if self._has_torn_note(found):
            is_mended = timers is not None
            checked.add(
                usual if is_mended else Severity.ERROR, FindingKind.TIMER_CHECK,
                "its note of deliveries does not have its checksum", path, NOTE_AT, topic=TIMER_TOPIC,
                ours="makes it anew" if is_mended else LEFT,
            )  # fmt: skip
        path = found.below(found.timer_paths.wheel)
        for said in checked.dry.said:
            if said.startswith("event=timer"):
                what = f"differs from the log: a start says {said.replace(found.root + '/', '')}"
                becomes = "delivers them" if said.startswith(HELD_BACK) else MENDED
                checked.add(usual, FindingKind.TIMERS_DIFFER, what, path, topic=TIMER_TOPIC, ours=becomes)
        if timers is None and checked.dry.recovered is not None:
            checked.add(Severity.ERROR, FindingKind.TIMERS_DIFFER, str(checked.dry.refusal), path, becomes=LEFT)
        elif timers is not None:
            for what, lost_messages in self._differences(found, timers):
                checked.add(
                    Severity.ERROR, FindingKind.TIMERS_DIFFER, f"differs from the log: {what}", path,
                    topic=TIMER_TOPIC, lost_messages=lost_messages, ours=LEFT,
                )  # fmt: skip

    def _of_checkpoint(self, found: Survey) -> Iterator[tuple[Severity, str]]:
        path, saved = found.timer_paths.check, self._saved
        data = found.disk.read_bytes(path) if found.disk.is_file(path) else None
        if data is None:
            return
        if len(data) != TIMER_CHECK_SIZE_BYTES:
            yield Severity.ERROR, f"{len(data):,} bytes, where it has {TIMER_CHECK_SIZE_BYTES:,}"
        if not saved.log_position and not saved.queue_offset:
            return  # a slave saves its master's progress, which was saved some time ago, and may have come further
        ahead_ms = saved.read_time_ms - max(saved.version_timestamp_ms, min(self._newest_ms, saved.read_time_ms))
        delivered = f"timers are delivered up to {saved.read_time_ms}, as was known at {saved.version_timestamp_ms}"
        if ahead_ms > _AHEAD_MAX_MS:
            yield Severity.ERROR, delivered
        elif ahead_ms < -_BEHIND_MAX_MS and found.disk.listdir(found.timer_paths.log):
            yield Severity.WARNING, delivered  # it may be no fault

    def _has_torn_note(self, found: Survey) -> bool:
        path = found.timer_paths.check
        data = found.disk.read_bytes(path)[NOTE_AT:] if found.disk.is_file(path) else b""
        return any(data) and DeliveryNote.unpack_untrusted(data) is None

    def _differences(self, found: Survey, timers: TimerStore) -> Iterator[tuple[str, int]]:
        """What would be delivered wrongly, and how many messages never."""
        precision_ms = found.timer_options.precision_ms
        since = self._since_ms // precision_ms
        slots = {slot.time: slot for slot in timers.wheel.slots_since(since)}
        linked = {unit.log_offset for slot in slots.values() for unit in timers.log.chain(slot.last_position)}
        missing = {
            log_offset
            for log_offset, message in self._messages.items()
            if message.queue_offset < timers.queue_offset and message.out_ms // precision_ms >= since
        } - linked
        if missing:  # one that has rolled since is stored again, and a clean stop cuts off what was delivered
            for unit in timers.log.scan(timers.log.segments.min_offset):
                time = unit.slot_time_ms // precision_ms
                slot = slots.get(time)
                is_cut = slot is not None and (slot.last_position == NOTHING or unit.position < slot.first_position)
                if time < since or is_cut:
                    missing.discard(unit.log_offset)
        wrong = {unit.log_offset for unit in timers.waiting_units() if not self._is_right(unit, precision_ms)}
        if missing:
            first = self._messages[min(missing)].queue_offset
            yield f"no slot of the wheel leads to the message at queue offset {first}", len(missing)
        elif wrong:
            yield f"slots lead to {counted(len(wrong), 'timer')} that no message calls for", 0

    def _is_right(self, unit: Unit, precision_ms: int) -> bool:
        message, due = self._messages.get(unit.log_offset), unit.slot_time_ms // precision_ms
        return (
            message is not None
            and message.size_bytes == unit.message_size_bytes
            and (message.out_ms // precision_ms == due or unit.is_roll)
        )
