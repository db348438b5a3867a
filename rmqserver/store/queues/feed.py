"""Consume queues as a follower of the log. A round's units become visible at once, files are written later, and
recovery rebuilds what is missing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator

from rmqproto.message.properties import find_bytes
from rmqproto.message.special_messages import LIGHT_QUEUE_ID
from rmqserver.core import CopiedRun
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import Disk, storage_error
from rmqserver.store.fate import DUE_TIME, FATE_MASK, QUEUED
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.log.scan import FoundRecord, scan
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues.consume_queue import UNIT, UNWRITTEN_UNITS_MAX, ConsumeQueue
from rmqserver.store.queues.consume_queues import ConsumeQueues, Topic
from rmqserver.store.queues.light import OFFSETS_MARK, light_units_untrusted
from rmqserver.store.queues.round import Arrival, Mark, Round, Sync
from rmqserver.store.results import MessageRefused
from rmqserver.store.running_flags import CONSUME_QUEUE_ERROR, RunningFlags

QUEUES_PER_PORTION = 32
"""Consume queues written at a time while the loop is idle, or cleaned in one turn."""

SYNCED_FILES_MAX = 64
"""With more files to sync, the whole file system is synced: a device takes thousands of files together in the time of a
few."""

_log = logging.getLogger(__name__)


class QueueFeed:
    """``note_dispatched`` is called from time to time with a record's log offset: the units of that record and of all
    before it are written. With ``read_only``, missing units are made only in memory."""

    def __init__(
        self,
        queues: ConsumeQueues,
        log: CommitLog,
        disk: Disk,
        flags: RunningFlags,
        options: StoreOptions,
        note_dispatched: Callable[[int], None],
        *,
        read_only: bool = False,
    ):
        self._queues = queues
        self._log = log
        self._disk = disk
        self._flags = flags
        self._options = options
        self.note_dispatched = note_dispatched
        self._read_only = read_only
        self._last_record_offset = 0
        self._known_offset = 0
        """The offset given to ``load``, if queues are opened on demand; else 0."""
        self._syncs_everything = False
        """Set if it is unknown which files a killed process has written."""
        self._gaps: dict[ConsumeQueue, int] | None = {}
        """Queues that lack units before the records that are replayed, and the log offset from which on. None: what is
        missing is not in the log."""
        self._replayed_from: int | None = None
        self._headless: list[ConsumeQueue] = []
        """Queues that have lost their first file: they are made again as a whole."""
        self._touched: dict[ConsumeQueue, int] = {}
        """Queues that were given units since ``replay`` began, with what was visible of them before."""

    # -- at a start

    def load(self, known_offset: int, *, clean: bool) -> bool:
        """Finds out which queues exist. ``known_offset`` is the log offset of a record whose unit, like those of all
        records before it, is in a file; 0 if none is known. If the record's queue confirms it, queues are opened on
        demand, and True is returned. Otherwise all queues are opened here, and their content decides."""
        self._queues.log_min_offset = self._queues.heads_log_min_offset = self._log.min_offset
        self._queues.look(clean=True, read_only=self._read_only)
        if known_offset and self._has_unit_of(known_offset):
            self._known_offset = known_offset
            self._headless = self._queues.open_doubtful()
            return True
        self._queues.look(clean=clean, read_only=self._read_only)
        self._headless = self._queues.open_doubtful()
        for _ in self._queues.all():
            pass
        return False

    def _has_unit_of(self, record_offset: int) -> bool:
        """False if the queues were removed or replaced since."""
        found = next(scan(self._log.segments, record_offset), None)
        if found is None or found.log_offset != record_offset:
            return False
        queue = self._queues.find(found.topic, found.queue_id)
        unit = queue.unit(found.queue_offset) if queue is not None else None
        return unit is not None and unit[0] == record_offset

    @property
    def newest_record_offset(self) -> int:
        return self._known_offset or self._queues.newest_log_offset

    def knows_behind(self, log_offset: int) -> bool:
        return self._known_offset > log_offset or any(
            queue.indexed_log_offset > log_offset for queue in self._queues.opened()
        )

    def replay(self, records: list[FoundRecord]) -> None:
        if self._replayed_from is None:
            self._replayed_from = records[0].log_offset
        if self._gaps is None:
            for queue in self._headless:
                self._queues.begin_anew(self._queues.topics[queue.topic], queue)
            self._headless.clear()
        self._replay(records)
        self._last_record_offset = records[-1].log_offset

    def lacks_from(self) -> int | None:
        gaps, self._gaps = self._gaps or {}, None
        self._queues.ends.drop_behind(self._last_record_offset if self._replayed_from is not None else -1)
        for queue in self._short():
            begin = max(queue.indexed_log_offset, self._log.min_offset)
            if self._replayed_from is not None and begin < self._replayed_from:
                gaps.setdefault(queue, begin)
        for queue in self._headless:
            gaps[queue] = self._log.min_offset
        for queue, begin in gaps.items():
            _log.warning("event=queue-gap topic=%s queue=%d units=%d log_offset=%d",
                         queue.topic, queue.queue_id, queue.next_offset, begin)  # fmt: skip
        return min(gaps.values(), default=None)

    def _short(self) -> list[ConsumeQueue]:
        """The opened queues that end before they did when the store was closed."""
        ends = self._queues.ends
        return [queue for queue in self._queues.opened() if queue.next_offset < ends.of(queue.topic, queue.queue_id)]

    def _replay(self, records: list[FoundRecord]) -> None:
        self._touched.clear()
        topics, has_light_queues = self._queues.topics, self._options.light_queues_enabled
        for found in records:
            topic = topics.get(found.topic) or self._topic(found)
            if topic is not None and (fate := topic.fates[found.sys_flag & FATE_MASK]) & QUEUED:
                tags = find_bytes(found.properties, b"TAGS\x01")
                code, _ = topic.tag(tags)
                if fate & DUE_TIME:
                    levels = self._options.delay_levels_ms
                    code = deliver_time_ms(found.properties, found.store_timestamp_ms, code, levels)
                self._add_to(topic, found.queue_id, found.queue_offset, found, code)
                if has_light_queues and OFFSETS_MARK in found.properties:
                    for name, queue_offset in light_units_untrusted(found.topic, found.properties):
                        light = topics.get(name) or self._topic(found, name)
                        if light is not None:
                            self._add_to(light, LIGHT_QUEUE_ID, queue_offset, found, light.tag(tags)[0])

    def take(self, records: list[FoundRecord]) -> list[Mark]:
        """As ``replay``, for a log that is copied while the store is open. Readers see the records once they are
        shown."""
        try:
            self._replay(records)
        finally:
            marks = self._marks()
        return marks

    def take_runs(self, runs: Iterable[CopiedRun]) -> list[Mark]:
        """As ``take``, for records that ``plain_records`` has read."""
        self._touched.clear()
        try:
            for name, queue_id, first, units in runs:
                topic = self._queues.topics.get(name) or self._queues.topic(name)
                queue = topic.queues.get(queue_id) or self._queues.add(topic, queue_id)
                if not first and queue.next_offset:
                    queue = self._begun_anew(topic, queue, UNIT.unpack_from(units)[0])
                self._touched.setdefault(queue, queue.max_offset)
                queue.append_run(first, units)
        finally:
            marks = self._marks()
        return marks

    def _marks(self) -> list[Mark]:
        """Hides the replayed units until they are shown."""
        for queue, max_offset in self._touched.items():
            queue.max_offset = max(min(max_offset, queue.max_offset), queue.min_offset)
        return [(queue, queue.next_offset) for queue in self._touched if queue.next_offset > queue.max_offset]

    def _topic(self, found: FoundRecord, name: str = "") -> Topic | None:
        """Makes the entry of a topic or light queue that was not known; None if the name is impossible."""
        try:
            return self._queues.topic(name or found.topic)
        except MessageRefused as error:
            _log.error("record at log offset %d passed over: %s", found.log_offset, error)
            return None

    def _add_to(self, topic: Topic, queue_id: int, queue_offset: int, found: FoundRecord, code: int) -> None:
        queue = topic.queues.get(queue_id) or self._queues.add(topic, queue_id)
        if not queue_offset and queue.next_offset:
            queue = self._begun_anew(topic, queue, found.log_offset)
        if self._gaps is not None and self._is_behind_gap(queue, queue_offset):
            return
        self._touched.setdefault(queue, queue.max_offset)
        queue.append_recovered(queue_offset, found.log_offset, found.size_bytes, code)
        unwritten = queue.next_offset - queue.written_offset
        if unwritten > UNWRITTEN_UNITS_MAX and not self._read_only:
            self._queues.write_queue(queue)
        elif unwritten:
            self._queues.behind[queue] = None

    def _is_behind_gap(self, queue: ConsumeQueue, queue_offset: int) -> bool:
        """Whether the queue needs records before the replayed ones: to fill the gap between its end and
        ``queue_offset``, or because its files begin behind that. Files were removed, or do not hold what the marks on
        the disk promise."""
        assert self._gaps is not None
        assert self._replayed_from is not None
        if not queue_offset:  # it was deleted, not lost: a new queue begins
            self._gaps.pop(queue, None)
        if queue_offset > queue.next_offset and queue not in self._gaps:
            begin = max(queue.indexed_log_offset, self._log.min_offset)
            if begin < self._replayed_from:
                self._gaps[queue] = begin
        elif queue.lacks_file_of(queue_offset) and queue not in self._gaps:
            self._headless.append(queue)
            self._gaps[queue] = self._log.min_offset
        return queue in self._gaps

    def _begun_anew(self, topic: Topic, queue: ConsumeQueue, log_offset: int) -> ConsumeQueue:
        """The queue for the first message of a queue, which lies at ``log_offset``. If it lies behind everything that
        the queue knows, the topic was deleted and made again: a log that is copied or read again does not tell of the
        deletion."""
        if self._read_only or not 0 < queue.indexed_log_offset <= log_offset:
            return queue
        _log.info("event=queue-begins-anew topic=%s queue=%d units=%d", topic.name, queue.queue_id, queue.next_offset)
        return self._queues.begin_anew(topic, queue)

    def cut(self, end_offset: int) -> None:
        """A log that ends before ``_known_offset`` is damaged: then every queue may know too much."""
        self._gaps = None
        is_damaged = end_offset <= max(self._known_offset, self._queues.ends.log_offset)
        if is_damaged and self._queues.ends.log_offset:
            self._queues.ends.forget_all()
        for queue in list(self._queues.all() if is_damaged else self._queues.opened()):
            queue.truncate(end_offset, read_only=self._read_only)
        self._queues.log_end_offset = end_offset

    def recovered(self, start_offset: int, end_offset: int, synced_offset: int, *, was_clean: bool) -> None:
        """Units that a killed process wrote to queue files since its last checkpoint are there, but not synced. The
        next checkpoint vouches for them, so it has to sync them."""
        self._queues.refuses_short = True
        for queue in self._short():  # the log has lost or expired messages; new ones do not get their queue offsets
            queue.skip_to(self._queues.ends.of(queue.topic, queue.queue_id))
            self._queues.behind[queue] = None
        self._syncs_everything = bool(self._known_offset) and not was_clean
        for queue in self._queues.opened():
            if not self._known_offset and not self._read_only:
                self._queues.note_last_file(queue)
            if queue.tail:
                queue.forget_before(self._log.min_offset)
            if not was_clean and not self._known_offset and queue.indexed_log_offset > synced_offset:
                self._queues.changed_paths.update(dict.fromkeys(queue.paths_behind(synced_offset)))

    # -- while the store is open

    @property
    def mark(self) -> bytes | None:
        return OFFSETS_MARK if self._options.light_queues_enabled else None

    def show(self, round_: Round) -> None:
        self._last_record_offset = round_.last_record_offset
        behind = self._queues.behind
        arrivals = round_.arrivals
        for queue, next_offset in round_.marks:
            if queue.is_deleted:
                continue
            first = queue.max_offset
            queue.max_offset = next_offset
            behind[queue] = None
            if next_offset - queue.written_offset > UNWRITTEN_UNITS_MAX:
                self._write(queue)
            arrivals.append(Arrival(queue, first, next_offset - first))

    @property
    def is_behind(self) -> bool:
        return bool(self._queues.behind) and not self._flags.bits & CONSUME_QUEUE_ERROR

    is_catching_up = False

    def work(self) -> None:
        behind, count = self._queues.behind, 0
        while behind and count < QUEUES_PER_PORTION and not self._flags.bits & CONSUME_QUEUE_ERROR:
            self._write(next(iter(behind)))
            count += 1
        if not behind:
            self.note_dispatched(self._last_record_offset)

    def write_everything(self) -> None:
        """After a deletion: a replay that met older records of the deleted queues would take them for lost ones."""
        self.work()
        while self.is_behind:
            self.work()

    def _write(self, queue: ConsumeQueue) -> None:
        try:
            self._queues.write_queue(queue)
        except OSError as error:
            reason = storage_error(error, "cannot write consume queue", queue.segments.directory)
            self._flags.fail(CONSUME_QUEUE_ERROR, reason)

    @property
    def wants_sync(self) -> bool:
        return False

    def prepare(self) -> Sync:
        paths, sync_notes = self._queues.take_changed_paths(), self._queues.ends.prepare()
        is_much = self._syncs_everything or (len(paths) > SYNCED_FILES_MAX and self._disk.can_sync_file_system)
        self._syncs_everything = False

        def sync(checkpoint: Checkpoint, write_checkpoint: Callable[[], None]) -> None:
            if is_much:
                self._disk.sync_file_system(self._queues.directory)
            else:
                self._sync_files(paths)
            sync_notes()

        return sync

    def _sync_files(self, paths: list[str]) -> None:
        directories: dict[str, None] = {}
        for path in paths:
            try:
                self._disk.open(path).fdatasync()
            except FileNotFoundError:
                continue  # its topic was deleted meanwhile
            queue_directory = os.path.dirname(path)
            topic_directory = os.path.dirname(queue_directory)
            directories.update(dict.fromkeys((queue_directory, topic_directory, self._queues.directory)))
        for directory in directories:
            if self._disk.is_directory(directory):
                self._disk.sync_directory(directory)

    def delete_below(self, log_offset: int) -> Iterator[None]:
        self._queues.log_min_offset = log_offset
        for count, queue in enumerate(self._queues.with_old_files(), 1):
            if queue is not None:
                queue.forget_before(log_offset)
                # Files that lie wholly below the first readable unit are removed, but never the last file.
                while len(queue.segments.bases) > 1 and queue.is_below_min(queue.segments.bases[1]):
                    queue.segments.delete_first()
            if not count % QUEUES_PER_PORTION:
                yield
        self._queues.heads_log_min_offset = log_offset


def deliver_time_ms(
    properties: bytes, store_timestamp_ms: int, tags_code: int, delay_levels_ms: tuple[int, ...]
) -> int:
    """What a unit of the schedule topic holds instead of its tags code: the time when the message is due
    (``MessageExtBrokerInner.tagsString2tagsCode`` and ``ScheduleMessageService.computeDeliverTimestamp``, 5.5.0)."""
    text = find_bytes(properties, b"DELAY\x01")
    if not text.isdigit() or int(text) <= 0 or not delay_levels_ms:
        return tags_code
    level = min(int(text), len(delay_levels_ms))
    return store_timestamp_ms + delay_levels_ms[level - 1]
