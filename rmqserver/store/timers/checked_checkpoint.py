"""Whether ``timercheck`` is about this log. It may come from another store, from a copy that was made after the log's,
from a former master, or from a hand."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqproto.errors import ProtocolError
from rmqproto.message.properties import TIMER_OUT_MS
from rmqproto.message.record import decode_record_untrusted
from rmqproto.names import TIMER_TOPIC
from rmqserver.store.timers.log import UNIT_SIZE_BYTES, TimerLog
from rmqserver.store.timers.timer_check import TimerCheckpoint

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore

UNITS_LOOKED_AT = 1024
"""Units at the end of the timer log among which the newest timer is looked for."""

LATE_MAX_MS = 10_000
"""A broker that runs delivers no later than this: what was due before the log's last record by more was delivered,
whatever another store's checkpoint says."""

DIGITS_MAX = 18
"""The most digits of a time, so that it fits Java's long."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogState:
    """What a start has to know of the commit log."""

    end_offset: int
    """Log offset behind its last record."""
    offset_at: Callable[[int], int | None]
    """The log offset of the record at a queue offset of the timer topic's queue, or of the first record behind it; None
    if there is none."""
    queue_end: int
    """The queue offset behind that queue's last message."""
    newest_ms: int
    """The store time of the log's last record; 0 if it has none."""
    out_ms_at: Callable[[int], int | None]
    """When the message at a queue offset of that queue is due; None if it does not say."""


def log_state(store: MessageStore) -> LogState:
    """The state of an open store's log."""

    def offset_at(queue_offset: int) -> int | None:
        queue = store.queues.find(TIMER_TOPIC, 0)
        unit = queue.unit(max(queue_offset, queue.min_offset)) if queue is not None else None
        return unit[0] if unit is not None else None

    def out_ms_at(queue_offset: int) -> int | None:
        found = store.get(TIMER_TOPIC, 0, queue_offset, 1).records()
        if not found:
            return None
        try:
            text = decode_record_untrusted(found[0]).properties.get(TIMER_OUT_MS, "")
        except ProtocolError:
            return None
        return int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else None

    return LogState(
        store.written_offset, offset_at, store.max_offset(TIMER_TOPIC, 0), store.newest_store_time_ms, out_ms_at
    )


def true_checkpoint(found: TimerCheckpoint, log: LogState, timer_log: TimerLog, precision_ms: int) -> TimerCheckpoint:
    """The checkpoint as far as the log confirms it. Nothing was delivered that was due after the log's last record was
    stored: the copy would be in the log. If the wheel may lack messages that the checkpoint calls taken in, the timer
    topic's queue is read again from its start."""
    newest_ms = log.newest_ms - log.newest_ms % precision_ms
    saved = replace(found, read_time_ms=min(found.read_time_ms, newest_ms))
    if not (found.queue_offset or found.log_position):  # a slave's
        return replace(saved, master_queue_offset=min(found.master_queue_offset, log.queue_end))
    why = _why_not_of(saved, log, timer_log, precision_ms)
    if not why:
        return saved
    _log.warning(
        "event=timers-read-again queue_offset=%d log_position=%d reason='%s'",
        found.queue_offset, found.log_position, why,
    )  # fmt: skip
    taken_in = min(found.queue_offset, log.queue_end)
    read_time_ms = max(saved.read_time_ms, newest_ms - LATE_MAX_MS)
    return replace(saved, read_time_ms=read_time_ms, queue_offset=0, log_position=0, master_queue_offset=taken_in)


def _why_not_of(saved: TimerCheckpoint, log: LogState, timer_log: TimerLog, precision_ms: int) -> str:
    """Why the checkpoint cannot be about this log and this timer log; empty if it can."""
    if saved.queue_offset > log.queue_end:
        return f"the queue of timers ends at {log.queue_end}"
    position, segments = saved.log_position, timer_log.segments
    last = timer_log.unit(position - UNIT_SIZE_BYTES) if position else None
    if position > segments.min_offset and last is None and position % segments.file_size_bytes:
        return f"the timer log has no unit before {position}"
    start = max(position - UNITS_LOOKED_AT * UNIT_SIZE_BYTES, segments.base_of(max(position - 1, 0)))
    next_log_offset = log.offset_at(saved.queue_offset)
    before = itertools.takewhile(lambda unit: unit.position < position, timer_log.scan(start))
    if next_log_offset is not None and any(unit.log_offset >= next_log_offset for unit in before):
        return f"the timer log has timers behind queue offset {saved.queue_offset}"
    taken_in = saved.queue_offset - 1
    log_offset = log.offset_at(taken_in) if taken_in >= 0 else None
    out_ms = log.out_ms_at(taken_in) if log_offset is not None else None
    if log_offset is None or out_ms is None or out_ms < saved.read_time_ms + precision_ms:
        return ""
    if any(unit.log_offset >= log_offset for unit in timer_log.scan(start)):
        return ""
    return f"the timer at queue offset {taken_in} is not in the timer log"
