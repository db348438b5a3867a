"""Tables below ``config/`` entry by entry, and the fields of the two checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from rmqadmin.core.results import DUE, TIME, Row, doc
from rmqadmin.core.stores.dumps.dump import Dump, DumpWindow, record_at
from rmqproto.errors import UsageError
from rmqproto.message import properties as props
from rmqproto.names import TIMER_TOPIC

if TYPE_CHECKING:
    from rmqserver.store.found.found_files import FoundFiles
    from rmqserver.store.found.found_tables import FoundTable
    from rmqserver.store.found.survey import Survey
    from rmqserver.store.timers.log import Unit


class StoredEntryRow(Row, frozen=True):
    table: Annotated[str, doc("file below config/", key=True)]
    entry: Annotated[str, doc("name of the entry: topic, group, topic@group, delay level, ...", key=True)]
    value: Annotated[str | None, doc("the entry as JSON", vital=True)]
    problem: Annotated[str | None, doc("why a broker cannot use the table, or what is unusual in it", sparse=True)]


class DumpedTables(Dump[StoredEntryRow], frozen=True):
    """Of ``tables``: entries of the tables that a broker would take, by file."""


class CheckpointRow(Row, frozen=True):
    path: Annotated[str, doc("file, below the store's directory", key=True)]
    field: Annotated[str, doc("name of the field", key=True)]
    value: Annotated[int, doc("its value", vital=True)]
    told_ms: Annotated[int | None, TIME, doc("the value as a time, if it is one")]
    what: Annotated[str, doc("what it means")]


class DumpedCheckpoints(Dump[CheckpointRow], frozen=True):
    """Of ``checkpoint``: fields of the checkpoint of the store, and of that of its timers."""


def table_rows(found: Survey, window: DumpWindow) -> Iterator[StoredEntryRow]:
    """The entries of all tables, or of the named one, or of their copies. UsageError for an unknown name."""
    from rmqserver.store.found.found_tables import FoundTables

    tables = FoundTables(found.paths.config, found.disk)
    if window.table is not None:
        named = tables.all.get(window.table) or tables.all.get(f"{window.table}.json")
        if named is None:
            raise UsageError(f"there is no table {window.table}", hint=f"There are {', '.join(sorted(tables.all))}.")
        yield from _entries(named)
        return
    for name in tables.names():
        used = tables.used(name)
        for each in (tables.all.get(name), used):
            if each is not None and (each is used or each.problem):
                yield from _entries(each)
                if each is used:
                    break


def _entries(table: FoundTable) -> Iterator[StoredEntryRow]:
    if table.problem or table.oddity:
        yield StoredEntryRow(table=table.name, entry="", value=None, problem=table.problem or table.oddity)
    for key, value in table.entries.items():
        yield StoredEntryRow(table=table.name, entry=str(key), value=msgspec.json.encode(value).decode(), problem=None)


# name, whether it is a time, meaning; in the order of the classes
_STORE_FIELDS = (
    ("log_timestamp_ms", True, "newest message that was flushed to the commit log"),
    ("queues_timestamp_ms", True, "newest message whose consume queue unit was flushed"),
    ("index_timestamp_ms", True, "index files that end later are not trusted after a crash"),
    ("master_flushed_offset", False, "log offset up to which the master had flushed"),
    ("confirm_offset", False, "log offset up to which all replicas in sync have the log"),
    ("queues_log_offset", False, "log offset of a record whose unit, and all before it, were flushed"),
    ("own_log_offset", False, "rmqserver's copy of it; another number: Apache's broker wrote last"),
)
_TIMER_FIELDS = (
    ("read_time_ms", True, "everything due before was delivered"),
    ("log_position", False, "timer log position up to which it was flushed"),
    ("queue_offset", False, "queue offset up to which timers are in the wheel"),
    ("master_queue_offset", False, "the same of the master"),
    ("state_version", False, "version of the state machine"),
    ("version_timestamp_ms", True, "when it was saved"),
    ("version_counter", False, "how often its version has changed"),
)


def checkpoint_rows(found: Survey) -> Iterator[CheckpointRow]:
    from rmqserver.store.timers.timer_check import TimerCheckpoint

    if found.checkpoint_size_bytes is not None:
        yield from _fields(found.below(found.paths.checkpoint), found.checkpoint, _STORE_FIELDS)
    if found.disk.is_file(found.timer_paths.check):
        saved = TimerCheckpoint.read(found.disk, found.timer_paths.check)
        yield from _fields(found.below(found.timer_paths.check), saved, _TIMER_FIELDS)


def _fields(path: str, of: Any, fields: tuple[tuple[str, bool, str], ...]) -> Iterator[CheckpointRow]:
    for name, is_time, what in fields:
        value = getattr(of, name)
        told_ms = value if is_time and 0 < value < _LATEST_MS else None
        yield CheckpointRow(path=path, field=name, value=value, told_ms=told_ms, what=what)


_LATEST_MS = 253_402_300_800_000
"""The year 10000: a later value is not a time."""


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


class DumpedTimers(Dump[TimerUnitRow], frozen=True):
    """Of ``timers``: units of the timer log in order."""


class WheelSlotRow(Row, frozen=True):
    due_ms: Annotated[int, DUE, doc("time for which the slot is", key=True)]
    messages: Annotated[int, doc("messages in it", vital=True)]
    first_position: Annotated[int, doc("timer log position of its first unit")]
    last_position: Annotated[int, doc("timer log position of its last unit")]
    delivered: Annotated[bool, doc("whether it has been delivered, as the checkpoint says")]


class DumpedWheel(Dump[WheelSlotRow], frozen=True):
    """Of ``wheel``: slots of the timer wheel that hold something, by time."""


def timer_rows(found: Survey, window: DumpWindow) -> Iterator[TimerUnitRow]:
    """The units. ``window`` counts timer log positions."""
    from rmqserver.store.disk.segments import FileCache
    from rmqserver.store.found.found_files import commit_log_of, files_of
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
    stored = record_at(log, unit.log_offset, unit.message_size_bytes)
    if stored is None:
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
