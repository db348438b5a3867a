"""Compares all consume queues with the log: which unit each record must have, and where every other unit points to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.message.properties import message_keys
from rmqserver.store.checks.found_files import FoundFiles
from rmqserver.store.checks.looks.checked_queue import BLOCK_BYTES, NO_UNIT, CheckedQueue, UnitRun, UnitState
from rmqserver.store.checks.looks.log_walk import LogStretch
from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.fate import DUE_TIME, FATE_MASK, INDEXED, QUEUED
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues.consume_queue import PRE_BLANK_SIZE, UNIT
from rmqserver.store.queues.consume_queues import Topic, can_be_directory
from rmqserver.store.queues.feed import deliver_time_ms
from rmqserver.store.queues.light import OFFSETS_MARK, light_units_untrusted
from rmqserver.store.queues.round import IndexItem

RECORDS_PER_SWEEP = 500_000
"""After this many records, the waiting units of all queues are compared: there may be many queues with a few units
each."""

_pack = UNIT.pack


class CheckedTopic(Topic):
    """``is_there``: the topic has a directory."""

    __slots__ = ("checked", "is_there", "record_count")

    def __init__(self, name: str, *, is_there: bool):
        super().__init__(name)
        self.is_there = is_there
        self.checked: dict[int, CheckedQueue] = {}
        self.record_count = 0


@dataclass(slots=True)
class LostMessages:
    """Lost messages of one queue, in one stretch of the log."""

    first_queue_offset: int
    last_queue_offset: int
    count: int = 1


class LogEnds:
    """Where the log has records: between its ends, except in the stretches."""

    def __init__(self, min_offset: int, end_offset: int, stretches: Sequence[LogStretch]):
        self.min_offset = min_offset
        self.end_offset = end_offset
        self._stretches = stretches
        self._starts = [stretch.log_offset for stretch in stretches]

    def stretch_at(self, log_offset: int) -> LogStretch | None:
        at = bisect_right(self._starts, log_offset) - 1
        found = self._stretches[at] if at >= 0 else None
        return found if found is not None and log_offset < found.end_offset else None

    def has(self, log_offset: int) -> bool:
        return self.min_offset <= log_offset < self.end_offset and self.stretch_at(log_offset) is None


def _state_of(unit: bytes, log: LogEnds, *, is_before_records: bool) -> UnitState | None:
    """The state of a unit without a record. None if nothing is wrong with it: units at the begin may outlive their
    records."""
    log_offset, size, _ = UNIT.unpack(unit)
    if unit == NO_UNIT:
        return None if is_before_records else UnitState.HOLE
    if size == PRE_BLANK_SIZE and log_offset == 0:
        return None
    if size <= 0 or log_offset < 0:
        return UnitState.RUBBISH
    if log_offset < log.min_offset:
        return None if is_before_records else UnitState.STRAY
    return UnitState.STRAY if log.has(log_offset) else UnitState.LOST


class QueueCheck:
    """``take`` all records in log order, then ``finish``. ``has_queues``: there are consume queues that can be read."""

    def __init__(self, directory: str, options: StoreOptions, disk: Disk, *, has_queues: bool = True):
        self.directory = directory
        self.topics: dict[str, CheckedTopic] = {}
        self._options = options
        self._disk = disk
        self._cache = FileCache(disk, options.open_files_max, read_only=True)
        self._has_queues = has_queues
        self._names = set(disk.listdir(directory)) if has_queues else set()
        self._since_sweep = 0
        self.lost: dict[int, dict[tuple[str, int], LostMessages]] = {}
        """Messages whose units point to a place without a record: by the start of the stretch (for those behind the
        log, its end), then topic and queue."""

    def take(self, records: Sequence[FoundRecord]) -> list[IndexItem]:
        """Takes the next records. Returns what the index must hold for them."""
        topics, levels, has_queues = self.topics, self._options.delay_levels_ms, self._has_queues
        items: list[IndexItem] = []
        for found in records:
            topic = topics.get(found.topic) or self._topic(found.topic)
            unique_key, keys, tags = message_keys(found.properties)
            code, tag_hash = topic.tags.get(tags) or topic.tag(tags)
            fate = topic.fates[found.sys_flag & FATE_MASK]
            log_offset = found.log_offset
            if fate & INDEXED:
                items.append(
                    (topic.index_prefix_hash, log_offset, found.store_timestamp_ms, unique_key, keys, tag_hash)
                )
            if not (fate & QUEUED and has_queues):
                continue
            unit_code = code
            if fate & DUE_TIME:
                unit_code = deliver_time_ms(found.properties, found.store_timestamp_ms, code, levels)
            queue = topic.checked.get(found.queue_id) or self._queue(topic, found.queue_id)
            unit = _pack(log_offset, found.size_bytes, unit_code)
            if found.queue_offset == queue.next_offset:
                queue.units += unit
                queue.next_offset += 1
                if len(queue.units) >= BLOCK_BYTES:
                    queue.compare()
            else:
                queue.jump(found.queue_offset, unit, log_offset)
            if OFFSETS_MARK in found.properties:
                self._take_light(found, _pack(log_offset, found.size_bytes, code))
        self._since_sweep += len(records)
        if self._since_sweep >= RECORDS_PER_SWEEP:
            self._sweep()
        return items

    def _take_light(self, found: FoundRecord, unit: bytes) -> None:
        for name, queue_offset in light_units_untrusted(found.topic, found.properties):
            topic = self.topics.get(name) or self._topic(name)
            if not topic.is_there:  # the broker made none, or the light queue has expired
                continue
            queue = topic.checked.get(LIGHT_QUEUE_ID) or self._queue(topic, LIGHT_QUEUE_ID)
            if queue_offset == queue.next_offset:
                queue.units += unit
                queue.next_offset += 1
            else:
                queue.jump(queue_offset, unit, found.log_offset)

    def _topic(self, name: str) -> CheckedTopic:
        topic = self.topics[name] = CheckedTopic(name, is_there=name in self._names)
        return topic

    def _queue(self, topic: CheckedTopic, queue_id: int) -> CheckedQueue:
        name = topic.name if can_be_directory(topic.name) else "-"
        path = f"{self.directory}/{name}/{queue_id}"
        files = FoundFiles(path, self._options.consume_queue_file_size_bytes, self._disk, self._cache)
        queue = topic.checked[queue_id] = CheckedQueue(topic.name, queue_id, files)
        return queue

    def _sweep(self) -> None:
        self._since_sweep = 0
        for queue in self.queues():
            queue.compare()

    def queues(self) -> Iterator[CheckedQueue]:
        """The queues of records that were taken."""
        for topic in self.topics.values():
            yield from topic.checked.values()

    # -- behind the log

    def finish(self, log: LogEnds, on_queue: Callable[[], None] = lambda: None) -> None:
        """Compares what is left, and examines units without a record. Opens every queue that has a directory."""
        self._sweep()
        for queue in self.queues():
            queue.end_offset = max((end for _, end in queue.covered), default=0)
        for name in sorted(self._names):
            if not self._disk.is_directory(f"{self.directory}/{name}"):
                continue
            topic = self.topics.get(name) or self._topic(name)
            for queue_id in self._disk.listdir(f"{self.directory}/{name}"):
                if queue_id.isdecimal() and self._disk.is_directory(f"{self.directory}/{name}/{queue_id}"):
                    queue = topic.checked.get(int(queue_id)) or self._queue(topic, int(queue_id))
                    self._look_at_others(queue, log)
                    on_queue()

    def _look_at_others(self, queue: CheckedQueue, log: LogEnds) -> None:
        first_record = min((begin for begin, _ in queue.covered), default=None)
        last_record = max((end for _, end in queue.covered), default=0)
        has_ended = False
        for queue_offset, count, unit in queue.other_units():
            state: UnitState | None = UnitState.RUBBISH
            if not has_ended:
                is_before_records = first_record is None or queue_offset < first_record
                state = _state_of(unit, log, is_before_records=is_before_records)
                if queue_offset >= last_record:
                    has_ended = unit == NO_UNIT or state is UnitState.RUBBISH
                    state = None if unit == NO_UNIT else state
            if state is not UnitState.RUBBISH and unit != NO_UNIT:
                queue.end_offset = max(queue.end_offset, queue_offset + 1)
            log_offset = UNIT.unpack(unit)[0]
            if state is UnitState.LOST:
                self._lose(queue, queue_offset, log_offset, log)
            if state is not None:
                queue.add(UnitRun(state, queue_offset, count, log_offset, b"", unit))

    def _lose(self, queue: CheckedQueue, queue_offset: int, log_offset: int, log: LogEnds) -> None:
        stretch = log.stretch_at(log_offset)
        start = stretch.log_offset if stretch is not None else log.end_offset
        by_queue = self.lost.setdefault(start, {})
        lost = by_queue.get((queue.topic, queue.queue_id))
        if lost is None:
            by_queue[queue.topic, queue.queue_id] = LostMessages(queue_offset, queue_offset)
        else:
            lost.last_queue_offset = queue_offset
            lost.count += 1
