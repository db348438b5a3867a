"""Store directories of stopped brokers: what they hold, whether it is sound, what a start would change."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG, ShowAll
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.core.names import is_made_by_brokers
from rmqadmin.core.progress import BytesDone
from rmqadmin.core.results import TIME, FoundRows, Notice, Row, doc, row_of
from rmqadmin.core.stores.dumps.dump import DumpedLog, DumpedRows, DumpWindow, log_rows
from rmqadmin.core.stores.dumps.queue_dump import DumpedIndex, DumpedQueues, index_rows, queue_rows
from rmqadmin.core.stores.dumps.table_dump import (
    DumpedCheckpoints,
    DumpedTables,
    DumpedTimers,
    DumpedWheel,
    checkpoint_rows,
    table_rows,
    timer_rows,
    wheel_rows,
)
from rmqadmin.core.stores.inspected import (
    InspectedFiles,
    InspectedGroups,
    InspectedQueues,
    InspectedTopics,
    inspected_files,
    inspected_groups,
    inspected_queues,
    inspected_topics,
)
from rmqadmin.core.stores.verified import VerifiedStore, verified
from rmqproto.errors import StorageError, UsageError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqserver.store.found.survey import Survey


class PlannedChangeRow(Row, frozen=True):
    part: Annotated[str, doc("commit log, consume queue, index, timers, checkpoint, tables", key=True)]
    action: Annotated[str, doc("what a start does there", key=True)]
    path: Annotated[str, doc("file, below the store's directory", key=True)]
    count: Annotated[int, doc("how many records, units or entries")]
    lost_messages: Annotated[int, doc("messages that are lost by this")]
    begin: Annotated[
        int | None, doc("where it begins: a log offset, a queue offset, or the number of an entry", minor=True)
    ]
    end: Annotated[int | None, doc("where it ends", minor=True)]
    size_bytes: Annotated[int, doc("bytes that are written, cut off or removed", minor=True)]
    what: Annotated[str, doc("details", minor=True)]
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest message cut off was stored", wide=True)]
    newest_ms: Annotated[int | None, TIME, doc("when the newest message cut off was stored", wide=True)]


class StartSummary(Row, frozen=True):
    store: Annotated[str, doc("directory")]
    was_clean: Annotated[bool | None, doc("whether the last broker had stopped cleanly")]
    read_from_offset: Annotated[int | None, doc("log offset from which records are read")]
    records_read: Annotated[int | None, doc("how many records are read")]
    log_end_offset: Annotated[int | None, doc("log offset where the next record goes")]
    lost_messages: Annotated[int, doc("messages that are cut off with the end of the log")]
    units_made: Annotated[int, doc("units of consume queues that are made from the log")]
    index_entries_made: Annotated[int, doc("entries of the index that are made from the log")]
    timers_waiting: Annotated[int | None, doc("timer messages that wait after the start")]
    said: Annotated[list[str] | None, doc("warnings about damage that the server would log", sparse=True)]


class StartPlan(FoundRows[PlannedChangeRow], frozen=True):
    """The changes in the order of the parts."""

    told: StartSummary
    refusal: str | None

    def summary(self) -> StartSummary:
        return self.told

    def remark(self) -> str | None:
        """What people want to know first, as text."""
        if self.refusal is not None:
            return None

        told = self.told
        made = [
            counted(told.units_made, "unit of consume queues", "units of consume queues"),
            counted(told.index_entries_made, "entry of the index", "entries of the index"),
        ]
        lost = counted(told.lost_messages, "message") if told.lost_messages else "no message"
        return f"a start loses {lost}, and makes {' and '.join(made)} from the log; nothing was changed now"

    def problem(self) -> str | None:
        return None if self.refusal is None else f"a broker would refuse to start: {self.refusal}"


def start_plan(found: Survey, on_work: Callable[[], None]) -> StartPlan:
    from rmqserver.store.checks.dry_run import DryRun
    from rmqserver.store.checks.start_plan import ADD_UNITS, ChangedPart, PlannedChange, planned_changes

    with DryRun(found.root, found.options, found.timer_options, found.disk, on_work=on_work) as dry:
        changes: list[PlannedChange] = []
        refusal = dry.refusal
        try:
            changes.extend(planned_changes(found, dry))
        except StorageError as error:  # from what a broker does after the store itself has started
            refusal = refusal or error
        recovered = dry.recovered
        told = StartSummary(
            store=found.root,
            was_clean=found.is_clean,
            read_from_offset=recovered.start_offset if recovered is not None else None,
            records_read=recovered.replayed_count if recovered is not None else None,
            log_end_offset=recovered.end_offset if recovered is not None else None,
            lost_messages=sum(each.lost_messages for each in changes),
            units_made=sum(each.count for each in changes if each.action == ADD_UNITS),
            index_entries_made=sum(each.count for each in changes if each.part is ChangedPart.INDEX),
            timers_waiting=dry.timers.waiting_count if dry.timers is not None else None,
            said=dry.said or None,
        )
    rows = [
        row_of(PlannedChangeRow, each, part=str(each.part), oldest_ms=each.begin_ms, newest_ms=each.end_ms)
        for each in changes
    ]
    return StartPlan(rows, told, None if refusal is None else str(refusal))


def surveyed(directory: str, notice: Notice) -> Survey:
    """The survey. UsageError if the directory is not a store. Gives a notice if a broker is running on it, because what
    it is just writing looks like damage."""
    from rmqserver.store.disk.disk import OsDisk
    from rmqserver.store.found.survey import survey

    found = survey(os.path.abspath(os.path.expanduser(directory)), OsDisk())
    if found.is_in_use:
        owner = found.owner_id if not found.lock_owner_id else str(found.lock_owner_id)
        process = f" (process {owner})" if owner.isdecimal() else ""
        notice(
            f"a broker is running on this store{process}: it is only read, and what is being written may look damaged"
        )
    return found


StoreDir = Annotated[str, Value.FILE, argument("The store's directory: the one that holds commitlog/.", metavar="DIR")]


def store_inspect(
    call: Call,
    directory: StoreDir,
    queues: Annotated[bool, option("--queues", "A row for each queue, with its offsets.")] = False,
    groups: Annotated[bool, option("--groups", "A row for each group and topic, with its lag.")] = False,
    files: Annotated[bool, option("--files", "A row for each file.")] = False,
    show_all: ShowAll = False,
) -> InspectedTopics | InspectedQueues | InspectedGroups | InspectedFiles:
    """Shows who wrote the store and how it was left, where its log begins and ends, topics and queues with their
    offsets and times, index, tables, messages that wait for their time, and disk use. Only reads; a broker may run on
    it.

      rmqadmin store inspect /data/store
      rmqadmin -o json store inspect /data/store --queues
      rmqadmin store inspect /data/store --groups
    """
    if queues + groups + files > 1:
        raise UsageError("--queues, --groups and --files are three tables", hint="Ask for one of them.")
    found = surveyed(directory, call.notice)
    if groups:
        return inspected_groups(found)
    if files:
        return inspected_files(found)
    if queues:
        return inspected_queues(found)
    return inspected_topics(
        found, lambda topics: call.without_systems_own(topics, is_made_by_brokers, "topics", show_all=show_all)
    )


def store_verify(
    call: Call,
    directory: StoreDir,
    all_findings: Annotated[bool, option("--all", "Also show notes: worth knowing, but not wrong.")] = False,
) -> VerifiedStore:
    """Reads the commit log once, and checks everything derived from it: consume queues, index, timers, tables. Each
    finding says where it is, what is lost, and what a start of rmqserver and of Apache's broker would do about it.
    Writes nothing and locks nothing. Ends with status 7 if there are errors or warnings.

      rmqadmin store verify /data/store
      rmqadmin -o json store verify /data/store --all
    """
    line = BytesDone(call.status)
    try:
        return verified(surveyed(directory, call.notice), line, shows_notes=all_findings)
    finally:
        line.clear()


class StorePart(StrEnum):
    LOG = "log"
    QUEUE = "queue"
    INDEX = "index"
    TIMERS = "timers"
    WHEEL = "wheel"
    CHECKPOINT = "checkpoint"
    TABLES = "tables"


_BOUNDS = {
    StorePart.LOG: ("begin", "end", "topic", "queue_id"),
    StorePart.QUEUE: ("begin", "end", "topic", "queue_id"),
    StorePart.INDEX: ("begin", "end"),
    StorePart.TIMERS: ("begin", "end"),
    StorePart.WHEEL: ("begin", "end"),
    StorePart.CHECKPOINT: (),
    StorePart.TABLES: ("table",),
}


def store_dump(
    call: Call,
    directory: StoreDir,
    part: Annotated[StorePart, argument(f"One of {', '.join(StorePart)}.", metavar="PART")],
    begin: Annotated[int | None, LONG, option("--from", "From this offset on.", metavar="OFFSET", min=0)] = None,
    end: Annotated[
        int | None, LONG, option("--to", "Up to this offset, not included.", metavar="OFFSET", min=0)
    ] = None,
    limit: Annotated[int | None, LONG, option("--limit", "Stop after N rows.", metavar="N", min=1)] = None,
    topic: Annotated[str | None, Value.TOPIC, option("--topic", "With log and queue: this topic only.")] = None,
    queue_id: Annotated[
        int | None, Value.QUEUE, option("--queue", "With log and queue: this queue only.", min=0)
    ] = None,
    table: Annotated[str | None, Value.FILE, option("--table", "With tables: this file only.")] = None,
) -> DumpedLog | DumpedQueues | DumpedIndex | DumpedTimers | DumpedWheel | DumpedCheckpoints | DumpedTables:
    """PART is log (records of the commit log), queue (units of consume queues), index (its entries), timers (units of
    the timer log), wheel (slots of the timer wheel), checkpoint (fields of both checkpoints), or tables (entries below
    config/). --from and --to are offsets of that part: log offsets of log and index, queue offsets of queue, timer log
    positions of timers, ms since the epoch of wheel. Damaged entries are shown in their places, with what is wrong with
    them. Only reads.

      rmqadmin store dump /data/store log --limit 20
      rmqadmin -o jsonl store dump /data/store log --topic OrderTopic --from 1048576
      rmqadmin store dump /data/store queue --topic OrderTopic --queue 3
      rmqadmin store dump /data/store tables --table topics.json
    """
    window = DumpWindow(begin, end, topic, queue_id, table)
    window.refuse_unused(part, *_BOUNDS[part])
    found = surveyed(directory, call.notice)
    match part:
        case StorePart.LOG:
            return DumpedLog(DumpedRows(log_rows(found, window, call.notice), limit))
        case StorePart.QUEUE:
            return DumpedQueues(DumpedRows(queue_rows(found, window), limit))
        case StorePart.INDEX:
            return DumpedIndex(DumpedRows(index_rows(found, window), limit))
        case StorePart.TIMERS:
            return DumpedTimers(DumpedRows(timer_rows(found, window), limit))
        case StorePart.WHEEL:
            return DumpedWheel(DumpedRows(wheel_rows(found, window), limit))
        case StorePart.CHECKPOINT:
            return DumpedCheckpoints(DumpedRows(checkpoint_rows(found), limit))
        case StorePart.TABLES:
            return DumpedTables(DumpedRows(table_rows(found, window), limit))


def store_start_plan(call: Call, directory: StoreDir) -> StartPlan:
    """A broker recovers its store when it starts; this shows what that would change, and what would be lost. Runs the
    server's own recovery and keeps its changes in a temporary file: the store is only read. To recover a store, start
    its broker; copy the store first.

      rmqadmin store start-plan /data/store
      rmqadmin -o json store start-plan /data/store
    """
    line = BytesDone(call.status)
    try:
        return start_plan(surveyed(directory, call.notice), lambda: line("trying a start", 0, 0))
    finally:
        line.clear()
