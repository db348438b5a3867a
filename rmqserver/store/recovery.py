"""What is true after a start: where the log ends, and which entries of queues and index are missing or too many
(``CommitLog.recoverNormally``, ``recoverAbnormally``, 5.5.0). The log decides; everything else follows it.

Three deviations from Apache, all on the safe side. After a crash the replay starts early enough for the index, so that
a look-up never misses a message that is there. And what lies behind the end of the log, of a queue or of an index file
is zeroed, so that old bytes cannot line up with new ones and come back at the next crash. For the same reason a record
of ours that lost a part of its properties, which no checksum covers, is known by the zeros, and ends the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rmqproto.errors import StorageError
from rmqproto.properties import find_bytes
from rmqproto.record import (
    INNER_BATCH,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    StoredMessage,
)  # fmt: skip
from rmqserver.store.checkpoint import Checkpoint
from rmqserver.store.commit_log import CommitLog
from rmqserver.store.consume_queue import UNWRITTEN_UNITS_MAX
from rmqserver.store.consume_queues import ConsumeQueues, Topic
from rmqserver.store.dispatch import deliver_time_ms
from rmqserver.store.index import Index
from rmqserver.store.log_scan import Found, first_record, scan, scan_portions
from rmqserver.store.options import StoreOptions
from rmqserver.store.results import MessageRefused
from rmqserver.store.segments import clear

_NOT_IN_QUEUES = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """``end_offset`` is where the log goes on; records were read from ``start_offset`` on, the last one at
    ``last_record_offset`` (0: none). From ``index_offset`` on they may lack index entries; the units of all up to the
    one at ``dispatched_offset`` are in their queues' files. ``was_clean``: the store had been closed, not killed."""

    start_offset: int
    end_offset: int
    index_offset: int
    dispatched_offset: int
    last_record_offset: int
    last_store_timestamp_ms: int
    replayed_count: int
    was_clean: bool


class Recovery:
    """One run over a store whose files are loaded. Neither ``queues`` nor ``index`` files are touched when
    ``read_only``: the units that are missing stay in memory. ``dispatched_offset``: what a process that was killed in
    this run of the operating system had dispatched, as ``StoreDirectory`` knows it."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        checkpoint: Checkpoint,
        options: StoreOptions,
        dispatched_offset: int = 0,
        *,
        read_only: bool = False,
    ):
        self._log = log
        self._queues = queues
        self._index = None if read_only else index
        self._checkpoint = checkpoint
        self._options = options
        self._dispatched_offset = dispatched_offset
        self._read_only = read_only

    @property
    def synced_offset(self) -> int:
        """Log and queue files are known to be on the device up to there, as far as they are there at all."""
        return self._checkpoint.queues_log_offset if self._checkpoint.is_ours else self._log.min_offset

    def run(self, *, clean: bool) -> Recovered:
        segments = self._log.segments
        if not segments.bases:
            self._refuse_missing_log(clean=clean)
            for queue in list(self._queues.all()):
                queue.truncate(0, read_only=self._read_only)
            return Recovered(0, 0, 0, 0, 0, 0, 0, clean)
        start = self._start_clean() if clean else self._start_after_crash()
        end, last, timestamp, count = start, 0, 0, 0
        for portion in self._portions(start, clean=clean):
            self._dispatch(portion)
            newest = portion[-1]
            end = newest.log_offset + newest.size_bytes
            last, timestamp = newest.log_offset, newest.store_timestamp_ms
            count += len(portion)
        if not count:
            self._refuse_damage(start, clean=clean)
            self._refuse_missing_log(clean=clean)
        if 0 < self._checkpoint.queues_log_offset >= end:
            _log.error("the log ends at %d, before the record at %d that was flushed: it is damaged, and cut off there",
                       end, self._checkpoint.queues_log_offset)  # fmt: skip
        self._cut(end, clean=clean)
        if not clean:
            self._note_unsynced_queues()
        index_offset = self._index_start(start, end, clean=clean)
        dispatched_offset = self._dispatched_offset if self._queues.behind else last
        return Recovered(start, end, index_offset, dispatched_offset, last, timestamp, count, clean)

    # -- where to start

    def _start_clean(self) -> int:
        """The newest record that a queue knows, if it is what the queue says: everything before it was flushed and
        dispatched when the store was closed. Otherwise the last file that begins before it."""
        newest = self._queues.newest_log_offset
        if newest >= self._log.min_offset and self._is_record(newest):
            return newest
        return self._last_file(lambda first: first.log_offset <= newest)

    def _start_after_crash(self) -> int:
        """The last record that a killed process had dispatched, if the page cache still has all of that; else the one
        that our own checkpoint names, for everything before it was flushed, log and queues. With Apache's checkpoint
        the start of the last file whose first record is known to be dispatched, as Apache does."""
        checkpoint = self._checkpoint
        newest = self._queues.newest_log_offset
        for start in (self._dispatched_offset, checkpoint.queues_log_offset if checkpoint.is_ours else 0):
            if start and newest >= start >= self._log.min_offset and self._is_record(start):
                return start

        def is_known(first: StoredMessage) -> bool:
            if first.log_offset > newest:  # no queue has it, whatever the checkpoint says: queue files were removed
                return False
            if checkpoint.queues_log_offset:
                return first.log_offset <= checkpoint.queues_log_offset
            return first.store_timestamp_ms <= checkpoint.queues_timestamp_ms

        return self._last_file(is_known)

    def _index_start(self, start: int, end: int, *, clean: bool) -> int:
        """Removes index files that know of records behind the end of the log, and says from where on entries may be
        missing then: before ``start``, if index files were removed, now, by a crash, or by somebody."""
        if self._index is None:
            return end
        is_complete = not self._index.drop_from(end) and clean and bool(self._index.files)
        known = max(self._index.end_log_offset, self._log.min_offset)
        if is_complete or known >= start:
            return start
        return known if self._is_record(known) else self._log.segments.base_of(known)

    def _is_record(self, log_offset: int) -> bool:
        return next(scan(self._log.segments, log_offset), None) is not None

    def _last_file(self, is_known: Callable[[StoredMessage], bool]) -> int:
        """Start of the last file that has a first record of which that is true; of the oldest file if none has."""
        for base in reversed(self._log.segments.bases):
            first = first_record(self._log.segments, base)
            if first is not None and first.store_timestamp_ms and is_known(first):
                return base
        return self._log.min_offset

    # -- what to do with a record

    def _portions(self, start: int, *, clean: bool) -> Iterator[list[Found]]:
        """The records from ``start`` to the end of the log."""
        knows_tears = not clean and (self._checkpoint.is_ours or self._checkpoint.is_blank)
        for portion in scan_portions(self._log.segments, start, check_crc=self._options.check_crc_on_recover):
            if knows_tears:  # our appender takes no zero in properties: there, they never came to the device
                torn = next((i for i, found in enumerate(portion) if 0 in found.properties), None)
                if torn is not None:
                    if torn:
                        yield portion[:torn]
                    return
            yield portion

    def _dispatch(self, portion: list[Found]) -> None:
        topics = self._queues.topics
        for found in portion:
            topic = topics.get(found.topic) or self._topic(found)
            if topic is None or found.sys_flag & INNER_BATCH:
                continue
            if found.sys_flag & TRANSACTION_MASK not in _NOT_IN_QUEUES:
                self._add_unit(found, topic)

    def _topic(self, found: Found) -> Topic | None:
        """A topic that was not there; None for a name that can be none's."""
        try:
            return self._queues.topic(found.topic)
        except MessageRefused as error:
            _log.error("record at log offset %d passed over: %s", found.log_offset, error)
            return None

    def _add_unit(self, found: Found, topic: Topic) -> None:
        code, _ = topic.tag(find_bytes(found.properties, b"TAGS\x01"))
        if topic.is_schedule:
            levels = self._options.delay_levels_ms
            code = deliver_time_ms(found.properties, found.store_timestamp_ms, code, levels)
        queue = topic.queues.get(found.queue_id) or self._queues.add(topic, found.queue_id)
        queue.append_recovered(found.queue_offset, found.log_offset, found.size_bytes, code)
        unwritten = queue.next_offset - queue.written_offset
        if unwritten > UNWRITTEN_UNITS_MAX and not self._read_only:
            self._queues.write_queue(queue)
        elif unwritten:
            self._queues.behind[queue] = None

    # -- what is too much

    def _refuse_damage(self, start: int, *, clean: bool) -> None:
        """StorageError where no record can be read though there are some: going on would overwrite them all. After a
        crash before the first flush of all there may be queue units and empty files, and still nothing is lost."""
        segments, queues = self._log.segments, self._queues.all()
        is_flushed = clean or not self._checkpoint.is_blank
        if any(first_record(segments, base) for base in segments.bases[1:]) or (
            is_flushed and (len(segments.bases) > 1 or any(queue.indexed_log_offset > start for queue in queues))
        ):
            raise StorageError(
                f"{segments.path(segments.base_of(start))}: no readable record at log offset {start}, "
                "though the store holds messages behind it",
                hint="copy the store, then move this damaged commit log file away; what the later files hold is kept",
            )

    def _refuse_missing_log(self, *, clean: bool) -> None:
        """StorageError where there is no message at all, and there were: going on would cut off what tells of them."""
        is_flushed = clean or not self._checkpoint.is_blank
        if is_flushed and any(queue.indexed_log_offset for queue in self._queues.all()):
            raise StorageError(
                f"{self._log.segments.directory} holds no message, though consume queues know of some: it lacks files",
                hint="put them back; to go on without what was in them, move consumequeue/ and index/ away",
            )

    def _note_unsynced_queues(self) -> None:
        """What a killed process wrote to queue files since its last checkpoint is there, but nobody has synced it: the
        next checkpoint, which vouches for it, has to."""
        known = self.synced_offset
        for queue in self._queues.all():
            if queue.indexed_log_offset > known:
                paths = queue.paths_since(queue.first_at_or_after(known))
                self._queues.changed_paths.update(dict.fromkeys(paths))

    def _cut(self, end: int, *, clean: bool) -> None:
        self._log.written_offset = self._log.visible_offset = end
        for queue in self._queues.all():
            queue.truncate(end, read_only=self._read_only)
        if not self._read_only:
            self._log.segments.delete_after(end)
            if not clean:
                clear(self._log.segments, end)
        for queue in self._queues.all():
            queue.forget_before(self._log.min_offset)
