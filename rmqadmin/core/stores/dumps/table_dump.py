"""Tables below ``config/`` entry by entry, and the fields of the two checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from rmqadmin.core.results import TIME, Row, doc
from rmqadmin.core.stores.dumps.dump import Dump, DumpWindow
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqserver.store.checks.found_tables import FoundTable
    from rmqserver.store.checks.survey import Survey


class StoredEntryRow(Row, frozen=True):
    table: Annotated[str, doc("file below config/", key=True)]
    entry: Annotated[str, doc("name of the entry: topic, group, topic@group, delay level, ...", key=True)]
    value: Annotated[str | None, doc("the entry as JSON", vital=True)]
    problem: Annotated[str | None, doc("why a broker cannot use the table, or what is unusual in it", sparse=True)]


class DumpedTables(Dump, frozen=True):
    """Of ``tables``: entries of the tables that a broker would take, by file."""

    row_type: ClassVar[type[Row]] = StoredEntryRow


class CheckpointRow(Row, frozen=True):
    path: Annotated[str, doc("file, below the store's directory", key=True)]
    field: Annotated[str, doc("name of the field", key=True)]
    value: Annotated[int, doc("its value", vital=True)]
    told_ms: Annotated[int | None, TIME, doc("the value as a time, if it is one")]
    what: Annotated[str, doc("what it means")]


class DumpedCheckpoints(Dump, frozen=True):
    """Of ``checkpoint``: fields of the checkpoint of the store, and of that of its timers."""

    row_type: ClassVar[type[Row]] = CheckpointRow


def table_rows(found: Survey, window: DumpWindow) -> Iterator[StoredEntryRow]:
    """The entries of all tables, or of the one named. A table comes from its file or, if that cannot be used, from its
    copy. UsageError for an unknown name."""
    from rmqserver.store.checks.found_tables import FoundTables

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
