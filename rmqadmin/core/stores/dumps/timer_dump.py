"""Timers: the units of the timer log, and the slots of the wheel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

from rmqadmin.core.results import DUE, TIME, Row, doc
from rmqadmin.core.stores.dumps.dump import Dump, DumpWindow
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import decode_record_untrusted
from rmqproto.names import TIMER_TOPIC

if TYPE_CHECKING:
    from rmqserver.store.checks.found_files import FoundFiles
    from rmqserver.store.checks.survey import Survey
    from rmqserver.store.timers.log import Unit


class TimerUnitRow(Row, frozen=True):
    position: Annotated[int, doc("its place in the timer log", key=True)]
    kind: Annotated[str, doc("timer; recall; rolled: written once more when the time comes", vital=True)]
    due_ms: Annotated[int, DUE, doc("when it is due, or rolled", vital=True)]
    topic: Annotated[str | None, doc("topic to which its message goes")]
    written_ms: Annotated[int, TIME, doc("when it was written", minor=True)]
    log_offset: Annotated[int, doc("where its message lies in the commit log")]
    size_bytes: Annotated[int, doc("size of the message's record", minor=True)]
    previous_position: Annotated[int, doc("unit before it in its slot, -1 for none", minor=True)]
    delivered: Annotated[bool, doc("whether it has been delivered, as the checkpoint says")]
    problem: Annotated[str | None, doc("what is wrong with it", sparse=True)]


class DumpedTimers(Dump, frozen=True):
    """Of ``timers``: units of the timer log in order."""

    row_type: ClassVar[type[Row]] = TimerUnitRow


class WheelSlotRow(Row, frozen=True):
    due_ms: Annotated[int, DUE, doc("time for which the slot is", key=True)]
    messages: Annotated[int, doc("messages in it", vital=True)]
    first_position: Annotated[int, doc("timer log position of its first unit")]
    last_position: Annotated[int, doc("timer log position of its last unit")]
    delivered: Annotated[bool, doc("whether it has been delivered, as the checkpoint says")]


class DumpedWheel(Dump, frozen=True):
    """Of ``wheel``: slots of the timer wheel that hold something, by time."""

    row_type: ClassVar[type[Row]] = WheelSlotRow


def timer_rows(found: Survey, window: DumpWindow) -> Iterator[TimerUnitRow]:
    """The units. ``window`` counts timer log positions."""
    from rmqserver.store.checks.found_files import commit_log_of, files_of
    from rmqserver.store.disk.segments import FileCache
    from rmqserver.store.timers.log import TimerLog
    from rmqserver.store.timers.timer_check import TimerCheckpoint

    log = commit_log_of(found)
    size = found.timer_options.log_file_size_bytes
    units = TimerLog(found.timer_paths.log, size, found.disk, FileCache(found.disk, 0))
    units.segments = files_of(found, found.timer_paths.log, size)
    delivered_ms = TimerCheckpoint.read(found.disk, found.timer_paths.check).read_time_ms
    for unit in units.scan(units.segments.min_offset):
        if window.end is not None and unit.position >= window.end:
            return
        if window.has(unit.position):
            yield _unit_row(unit, log, delivered_ms)


def _unit_row(unit: Unit, log: FoundFiles, delivered_ms: int) -> TimerUnitRow:
    topic, problem = _message(unit, log)
    kind = "recall" if unit.is_delete else "timer"
    return TimerUnitRow(
        position=unit.position, kind=f"{kind}, rolled" if unit.is_roll else kind, due_ms=unit.slot_time_ms, topic=topic,
        written_ms=unit.write_time_ms, log_offset=unit.log_offset, size_bytes=unit.message_size_bytes,
        previous_position=unit.previous_position, delivered=unit.slot_time_ms < delivered_ms, problem=problem,
    )  # fmt: skip


def _message(unit: Unit, log: FoundFiles) -> tuple[str | None, str | None]:
    """The topic that a unit's message goes to, and what is wrong."""
    if unit.log_offset < log.min_offset:
        return None, f"expired: the commit log begins at {log.min_offset}"
    try:
        stored = decode_record_untrusted(log.read(unit.log_offset, unit.message_size_bytes))
    except ProtocolError:
        return None, "no record of this size is there"
    if stored.topic != TIMER_TOPIC or stored.log_offset != unit.log_offset:
        return None, "no timer message is there"
    return props.parse(stored.properties_raw.decode("utf-8", "replace")).get(props.REAL_TOPIC), None


def wheel_rows(found: Survey, window: DumpWindow) -> Iterator[WheelSlotRow]:
    """The slots. ``window`` counts slot times in ms. StorageError for a wheel of another size."""
    from rmqserver.store.disk.overlay import OverlayDisk
    from rmqserver.store.timers.timer_check import TimerCheckpoint
    from rmqserver.store.timers.wheel import NOTHING, TimerWheel

    precision_ms = found.timer_options.precision_ms
    delivered_ms = TimerCheckpoint.read(found.disk, found.timer_paths.check).read_time_ms
    wheel = TimerWheel(found.timer_paths.wheel, OverlayDisk(found.disk), precision_ms)
    wheel.load(0)
    for slot in wheel.slots_since(0):
        due_ms = slot.time * precision_ms
        if window.has(due_ms) and (slot.last_position != NOTHING or slot.message_count):
            yield WheelSlotRow(
                due_ms=due_ms, messages=slot.message_count, first_position=slot.first_position,
                last_position=slot.last_position, delivered=due_ms < delivered_ms,
            )  # fmt: skip
