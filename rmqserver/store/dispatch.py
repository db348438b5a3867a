"""What follows an append: consume queues show the record, held pulls hear of it, files and index get their entries
later in bounded portions. Nothing here can lose a message: it is all worked out again from the log by recovery."""

from __future__ import annotations

from collections.abc import Callable

from rmqproto.properties import find_bytes
from rmqserver.store.commit_log import CommitLog
from rmqserver.store.consume_queue import UNWRITTEN_UNITS_MAX, ConsumeQueue
from rmqserver.store.consume_queues import ConsumeQueues
from rmqserver.store.disk import storage_error
from rmqserver.store.index_feed import IndexFeed
from rmqserver.store.index_file import IndexItem
from rmqserver.store.results import Arrival
from rmqserver.store.running_flags import CONSUME_QUEUE_ERROR, RunningFlags

Mark = tuple[ConsumeQueue, int]
"""A queue and its offset up to which everything is visible."""


class Dispatcher:
    """``note_dispatched`` is told, now and then, of a record: its unit and those of all before it are written."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: IndexFeed,
        flags: RunningFlags,
        note_dispatched: Callable[[int], None],
    ):
        self.on_visible: Callable[[list[Arrival]], None] | None = None
        self.last_record_offset = 0
        """Log offset of the newest visible record."""
        self._log = log
        self._queues = queues
        self._index = index
        self._flags = flags
        self._note_dispatched = note_dispatched

    def show(self, end_offset: int, last_record_offset: int, marks: list[Mark], items: list[IndexItem]) -> None:
        """Makes the records of a round, whose last one lies before ``end_offset`` of the log, visible."""
        self._log.visible_offset = end_offset
        self.last_record_offset = last_record_offset
        behind = self._queues.behind
        arrivals = []
        for queue, next_offset in marks:
            if queue.is_deleted:
                continue
            first = queue.max_offset
            queue.max_offset = next_offset
            behind[queue] = None
            if next_offset - queue.written_offset > UNWRITTEN_UNITS_MAX:
                self._write_queue(queue)
            arrivals.append(Arrival(queue, first, next_offset - first))
        if items:
            self._index.add(items)
        if self.on_visible is not None:
            self.on_visible(arrivals)

    def some(self, queues_max: int) -> bool:
        """A portion of what was put behind; True if some is left."""
        if self._index.is_behind:
            self._index.put_some()
        behind = self._queues.behind
        had_some = bool(behind)
        while behind and queues_max > 0 and not self._flags.bits & CONSUME_QUEUE_ERROR:
            self._write_queue(next(iter(behind)))
            queues_max -= 1
        if had_some and not behind:
            self._note_dispatched(self.last_record_offset)
        return self._index.is_behind or (bool(behind) and not self._flags.bits & CONSUME_QUEUE_ERROR)

    def everything(self) -> None:
        while self.some(1 << 30):
            pass

    def _write_queue(self, queue: ConsumeQueue) -> None:
        try:
            self._queues.write_queue(queue)
        except OSError as error:
            reason = storage_error(error, "cannot write consume queue", queue.segments.directory)
            self._flags.set(CONSUME_QUEUE_ERROR, str(reason))


def deliver_time_ms(
    properties: bytes, store_timestamp_ms: int, tags_code: int, delay_levels_ms: tuple[int, ...]
) -> int:
    """What a unit of the schedule topic holds in place of its tags code: when the message is due
    (``MessageExtBrokerInner.tagsString2tagsCode`` and ``ScheduleMessageService.computeDeliverTimestamp``, 5.5.0)."""
    text = find_bytes(properties, b"DELAY\x01")
    if not text.isdigit() or int(text) <= 0 or not delay_levels_ms:
        return tags_code
    level = min(int(text), len(delay_levels_ms))
    return store_timestamp_ms + delay_levels_ms[level - 1]
