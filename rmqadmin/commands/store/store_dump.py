"""``store dump``: shows the content of a store's files, record by record."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG
from rmqadmin.cli.options.store_options import StoreDir
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.stores.dumps.dump import DumpedRows, DumpWindow
from rmqadmin.core.stores.dumps.index_dump import DumpedIndex, index_rows
from rmqadmin.core.stores.dumps.log_dump import DumpedLog, log_rows
from rmqadmin.core.stores.dumps.queue_dump import DumpedQueues, queue_rows
from rmqadmin.core.stores.dumps.table_dump import (
    DumpedCheckpoints,
    DumpedTables,
    checkpoint_rows,
    table_rows,
)
from rmqadmin.core.stores.dumps.timer_dump import DumpedTimers, DumpedWheel, timer_rows, wheel_rows
from rmqadmin.core.stores.surveyed import surveyed


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
    part: Annotated[StorePart, typer.Argument(metavar="PART", help=f"One of {', '.join(StorePart)}.")],
    begin: Annotated[
        int | None, LONG, typer.Option("--from", metavar="OFFSET", min=0, help="From this offset on.")
    ] = None,
    end: Annotated[
        int | None, LONG, typer.Option("--to", metavar="OFFSET", min=0, help="Up to this offset, not included.")
    ] = None,
    limit: Annotated[int | None, LONG, typer.Option("--limit", metavar="N", min=1, help="Stop after N rows.")] = None,
    topic: Annotated[
        str | None, Value.TOPIC, typer.Option("--topic", metavar="TOPIC", help="With log and queue: this topic only.")
    ] = None,
    queue_id: Annotated[
        int | None,
        Value.QUEUE,
        typer.Option("--queue", metavar="QUEUE", min=0, help="With log and queue: this queue only."),
    ] = None,
    table: Annotated[
        str | None, Value.FILE, typer.Option("--table", metavar="FILE", help="With tables: this file only.")
    ] = None,
) -> DumpedLog | DumpedQueues | DumpedIndex | DumpedTimers | DumpedWheel | DumpedCheckpoints | DumpedTables:
    """PART is log (records of the commit log), queue (units of consume queues), index (its entries), timers (units of
    the timer log), wheel (slots of the timer wheel), checkpoint (fields of both checkpoints), or tables (entries below
    config/). --from and --to are offsets of that part: log offsets of log and index, queue offsets of queue, timer log
    positions of timers, ms since the epoch of wheel. Damaged entries are shown in their places, with what is wrong with
    them. Only reads.

    Examples:
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
