"""Faults of the tables below ``config/``: damage, and offsets that their queues do not have."""

from __future__ import annotations

from rmqproto.names import LIGHT_QUEUE_PREFIX, REVIVE_GROUP, SCHEDULE_TOPIC, TRANSACTION_GROUP, is_system_group
from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.queue_check import QueueCheck
from rmqserver.store.disk.whole_files import BACKUP
from rmqserver.store.found.found_tables import (
    APACHE,
    DELAY_OFFSETS,
    GROUPS,
    LIGHT_OFFSETS,
    OFFSETS,
    FoundTable,
    FoundTables,
)
from rmqserver.store.found.survey import Queues, holds_rocksdb

LEFT = "leaves it"
NOT_READ = "does not read it"
REFUSED = "refuses to start"
SET_BACK = "sets it back to the end"
DELIVERED = "sets it back to what this log has delivered"
READ_ANEW = "reads the queue again from its start"
READ_BY_BROKERS = (TRANSACTION_GROUP, REVIVE_GROUP)

_BROADCAST = "@broadcast"
"""Suffix of the name of a group that came through a proxy."""


def add_all(checked: CheckedStore, tables: FoundTables, queues: QueueCheck) -> None:
    prefix = checked.found.below(tables.directory)
    for name in tables.names():
        _add_damage(checked, tables, name, prefix)
    _add_offsets(checked, tables, queues, prefix)
    _add_delays(checked, tables, queues, prefix)
    for name in tables.other_names:
        if holds_rocksdb(checked.found.disk, f"{tables.directory}/{name}"):
            checked.add(Severity.NOTE, FindingKind.NOT_CHECKED, "a table in RocksDB: not read here", f"{prefix}/{name}")
        else:
            checked.add(Severity.NOTE, FindingKind.STRANGER, "no table that is known here", f"{prefix}/{name}")


def _add_damage(checked: CheckedStore, tables: FoundTables, name: str, prefix: str) -> None:
    table, copy, used = tables.all.get(name), tables.all.get(name + BACKUP), tables.used(name)
    for each in (table, copy):
        if each is not None and each.oddity:
            _add(checked, Severity.WARNING, each, each.oddity, prefix, "takes it as it is" if each is used else LEFT)
    if table is None and copy is not None and copy.is_usable:
        _add(checked, Severity.WARNING, copy, "this copy is there alone", prefix, "takes it")
    taken = next((each for each in (table, copy) if each is not None and each.size_bytes and not each.problem), None)
    for each in (table, copy):
        if each is None or each.is_usable or (each is copy and not each.size_bytes and table is not None):
            continue
        what = each.problem or each.misfit or "empty"
        if each.misfit and each is taken:
            apache = f"takes {used.name}" if used is not None else REFUSED
            _add(checked, Severity.ERROR, each, what, prefix, REFUSED, apache)
        elif (other := used or taken) is not None:
            becomes = f"takes {other.name}" if each is table else "makes a new copy with the next change"
            _add(checked, Severity.WARNING, each, what, prefix, becomes)
        elif each.problem:
            _add(checked, Severity.ERROR, each, what, prefix, REFUSED)
        else:
            severity = Severity.WARNING if each.reader == APACHE else Severity.ERROR
            what = "empty, and without a copy" if each is table else "this copy is empty, and there alone"
            _add(checked, severity, each, what, prefix, REFUSED, "begins with an empty table")


def _add(
    checked: CheckedStore, severity: Severity, table: FoundTable, what: str, prefix: str, ours: str, apache: str = ""
) -> None:
    """``apache``: what Apache's broker does, if it is not what ours does."""
    if table.reader == APACHE:
        ours, apache = NOT_READ, apache or ours
    elif table.reader:
        ours, apache = f"{ours} {table.reader}", NOT_READ
    checked.add(severity, FindingKind.TABLE_DAMAGED, what, f"{prefix}/{table.name}", becomes=(ours, apache or ours))


def _add_offsets(checked: CheckedStore, tables: FoundTables, queues: QueueCheck, prefix: str) -> None:
    groups, topics = tables.keys(GROUPS), checked.known_topics
    path = f"{prefix}/{LIGHT_OFFSETS if tables.used(LIGHT_OFFSETS) is not None else OFFSETS}"
    for key, by_queue in tables.offsets().items():
        topic, _, group = key.removesuffix(_BROADCAST).partition("@")
        if groups is not None and group not in groups and not is_system_group(group) and not _is_light(group):
            checked.add(
                Severity.NOTE, FindingKind.TABLE_OFFSET, f"group {group} has offsets, and {GROUPS} does not name it",
                path, topic=topic, ours=LEFT, apache=LEFT,
            )  # fmt: skip
        if topics is not None and topic not in topics and not _is_light(topic):
            checked.add(
                Severity.NOTE, FindingKind.TABLE_OFFSET, f"group {group} has offsets in a topic that no table names",
                path, topic=topic, ours=LEFT, apache=LEFT,
            )  # fmt: skip
        for queue_id, offset in by_queue.items():
            end = _end_of(checked, queues, topic, queue_id)
            if end is not None and not -1 <= offset <= end and not checked.found.is_in_use:
                checked.add(
                    Severity.WARNING, FindingKind.TABLE_OFFSET,
                    f"{group} has committed {offset}, and the queue ends at {end}", path, topic=topic,
                    queue_id=queue_id, queue_offset=offset,
                    becomes=(READ_ANEW if group in READ_BY_BROKERS else SET_BACK, LEFT),
                )  # fmt: skip


def _is_light(name: str) -> bool:
    return name.startswith(LIGHT_QUEUE_PREFIX)


def _add_delays(checked: CheckedStore, tables: FoundTables, queues: QueueCheck, prefix: str) -> None:
    for level, offset in tables.delay_offsets().items():
        end = _end_of(checked, queues, SCHEDULE_TOPIC, level - 1)
        if end is not None and not 0 <= offset <= end:
            checked.add(
                Severity.WARNING, FindingKind.TABLE_OFFSET,
                f"delay level {level} is delivered up to {offset}, and its queue ends at {end}",
                f"{prefix}/{DELAY_OFFSETS}", topic=SCHEDULE_TOPIC, queue_id=level - 1, queue_offset=offset,
                becomes=(DELIVERED, SET_BACK),
            )  # fmt: skip


def _end_of(checked: CheckedStore, queues: QueueCheck, topic: str, queue_id: int) -> int | None:
    """The queue offset behind the last message; 0 for a queue that no message has reached. None if the queues cannot be
    read here."""
    queue = queues.queues.get((topic, queue_id))
    if queue is not None:
        return queue.end_offset
    return 0 if checked.found.queues is Queues.FILES else None
