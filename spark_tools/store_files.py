"""A store directory as a source: the ranges of its queues, and the partitions of a read. It is opened read-only: no
lock is taken, no file is changed, and a broker may be using it.

There are two ways to read. ``scan`` goes through the commit log and keeps the wanted records. ``index`` goes through
the consume queues and reads only the wanted records. A queue whose files are gone can only be scanned.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumerOffsetsBody
from rmqproto.errors import NotFoundError, ProtocolError, StorageError
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.names import is_system_topic
from rmqproto.perm import PERM_INHERIT
from rmqproto.wire import fastjson
from rmqserver.store.disk.directory import StoreDirectory
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import open_read_only
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.queues.time_search import offset_for_time
from rmqserver.store.recovery.checkpoint import Checkpoint
from rmqserver.store.results import Boundary
from spark_tools.offset_ranges import OffsetRange
from spark_tools.ranges import Resolved, cut_range, resolve, wanted_topics
from spark_tools.source_options import ReadOptions

INDEX_SHARE_MAX = 0.2
"""If more than this part of all messages is wanted, reading the whole log is cheaper than picking records."""

PARTS_PER_CORE = 2
SPLIT_SIZE_BYTES_MIN = 16 << 20
"""Splits should be so many that no core is idle at the end, but none so small that starting its task costs more than
reading it."""

UNKNOWN_BROKER = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPart:
    """Records that start at log offsets ``begin`` to ``end`` of one commit log file. With ``ranges`` None they are of
    any queue of ``topics``; with ``topics`` None of any topic."""

    root: str
    broker_name: str
    base: int
    begin: int
    end: int
    topics: frozenset[str] | None
    ranges: tuple[OffsetRange, ...] | None
    internal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPart:
    """Messages of one queue, found through its consume queue's files."""

    root: str
    broker_name: str
    range: OffsetRange
    log_file_size_bytes: int
    queue_file_size_bytes: int


Part = ScanPart | IndexPart


@dataclass(slots=True)
class StorePlan:
    parts: list[Part] = field(default_factory=list)
    gaps: list[OffsetRange] = field(default_factory=list)


class StoreView:
    """One store directory, read-only. StorageError if it is not a store, or cannot be read. Use it with ``with``."""

    def __init__(self, root: str, broker_name: str | None = None):
        self.root = os.path.abspath(root)
        if not os.path.isdir(f"{self.root}/commitlog"):
            raise StorageError(f"{root} holds no commitlog directory", hint="name the store's root directory")
        self.broker_name = broker_name or _broker_name_of(self.root) or UNKNOWN_BROKER
        # Before the store is opened: a broker that uses it may move it on.
        checkpoint = Checkpoint.read(OsDisk(), StoreDirectory(self.root, OsDisk()).checkpoint)
        self._flushed_record_offset = checkpoint.queues_log_offset
        self._store = open_read_only(self.root, StoreOptions(index_enabled=False))
        self._groups: dict[str, dict[int, int]] | None = None

    def __enter__(self) -> StoreView:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._store.close()

    # -- positions

    def topics(self) -> list[str]:
        return sorted(self._store.queues.names())

    def queues(self, topic: str) -> list[MessageQueue]:
        found = self._store.queues.of_topic(topic)
        return [MessageQueue(topic, self.broker_name, queue.queue_id) for queue in found]

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        found = self._queue(queue)
        first = max(found.min_offset, found.first_at_or_after(self._store.log.min_offset))
        return first, found.max_offset

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return offset_for_time(self._store.log, self._queue(queue), timestamp_ms, Boundary.LOWER)

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        if self._groups is None:
            self._groups = _committed_offsets(self.root)
        return self._groups.get(f"{queue.topic}@{group}", {}).get(queue.queue_id)

    def _queue(self, queue: MessageQueue) -> ConsumeQueue:
        found = self._store.queues.find(queue.topic, queue.queue_id)
        if found is None or queue.broker_name != self.broker_name:
            raise NotFoundError(f"{self.root} has no queue {queue.queue_id} of {queue.topic} on {queue.broker_name}")
        return found

    def message(self, queue: MessageQueue, queue_offset: int) -> StoredMessage | None:
        """The message at a queue offset; None if there is none, or it is damaged."""
        unit = self._queue(queue).unit(queue_offset)
        if unit is None or unit[0] < self._log_start:
            return None
        try:
            found = decode_records_untrusted(self._store.log.read(unit[0], unit[1]))
        except ProtocolError:
            return None
        return found[0] if found and found[0].queue_offset == queue_offset else None

    # -- partitions

    def plan(self, options: ReadOptions) -> StorePlan:
        """How to read what ``options`` ask for, cut into partitions. StorageError if damage ends the log too early and
        ``on_corrupt`` is fail."""
        if options.on_corrupt == "fail" and 0 < self._flushed_record_offset >= self._log_end:
            raise StorageError(
                f"{self.root}: the log is damaged at log offset {self._log_end}, and the record at "
                f"{self._flushed_record_offset} was flushed",
                hint="onCorrupt=skip reads what is before it; rmqadmin store verify shows the damage",
            )
        lost = self._topics_without_queue(options)
        resolved = resolve(options, self) if not lost else Resolved()
        ranges = resolved.ranges
        plan = StorePlan(gaps=resolved.gaps)
        everything = self._is_everything(options)
        if options.mode != "scan" and not lost and (options.mode == "index" or self._is_sparse(ranges)):
            plan.parts = self._index_parts(ranges, options)
        elif everything or lost:
            topics = None if everything and not lost else frozenset(wanted_topics(options, self.topics()))
            internal = options.include_internal_topics or options.topics is not None
            plan.parts = self._scan_parts(options, topics, None, self._log_start, self._log_end, internal)
        elif ranges:
            plan.parts = self._scan_parts(
                options, frozenset(each.queue.topic for each in ranges), tuple(ranges), *self._log_span(ranges), True
            )  # fmt: skip
        return plan

    @property
    def _log_start(self) -> int:
        return self._store.log.segments.min_offset

    @property
    def _log_end(self) -> int:
        return self._store.log.confirmed_offset

    def _topics_without_queue(self, options: ReadOptions) -> bool:
        """Whether a wanted topic may have lost its consume queue, so that only the log shows its messages."""
        named = options.topics if options.topics is not None else []
        return options.mode != "index" and (any(not self.queues(topic) for topic in named) or not self.topics())

    def _is_everything(self, options: ReadOptions) -> bool:
        return (
            options.topics is None
            and options.topic_pattern is None
            and options.assigned is None
            and options.start.keyword == "earliest"
            and options.end.keyword == "latest"
            and not (options.start.table or options.end.table)
            and not (options.start.timestamps_ms or options.end.timestamps_ms)
        )

    def _is_sparse(self, ranges: Sequence[OffsetRange]) -> bool:
        total = sum(queue.max_offset - queue.min_offset for queue in self._store.queues.all())
        return sum(each.count for each in ranges) <= total * INDEX_SHARE_MAX

    def _log_span(self, ranges: Sequence[OffsetRange]) -> tuple[int, int]:
        """The log offsets that enclose all messages of the ranges."""
        begin, end = self._log_end, self._log_start
        for each in ranges:
            queue = self._queue(each.queue)
            first, last = queue.unit(each.start), queue.unit(each.end - 1)
            begin = min(begin, first[0] if first else self._log_start)
            end = max(end, last[0] + last[1] if last else self._log_end)
        return begin, end

    def _scan_parts(
        self,
        options: ReadOptions,
        topics: frozenset[str] | None,
        ranges: tuple[OffsetRange, ...] | None,
        begin: int,
        end: int,
        internal: bool,
    ) -> list[Part]:
        segments = self._store.log.segments
        wanted_count = max(options.min_partitions, PARTS_PER_CORE * (os.cpu_count() or 1))
        smallest = 1 if options.min_partitions else SPLIT_SIZE_BYTES_MIN
        split = min(options.split_size_bytes, max(smallest, -(-(end - begin) // wanted_count)))
        parts: list[Part] = []
        for base in segments.bases:
            at, file_end = max(base, begin), min(base + segments.file_size_bytes, end)
            while at < file_end:
                stop = min(at + split, file_end)
                parts.append(ScanPart(
                    root=self.root, broker_name=self.broker_name, base=base, begin=at, end=stop, topics=topics,
                    ranges=ranges, internal=internal,
                ))  # fmt: skip
                at = stop
        return parts

    def _index_parts(self, ranges: Sequence[OffsetRange], options: ReadOptions) -> list[Part]:
        """Parts of whole queues, cut to reach the wanted number. Units that recovery found only in the log are read by
        a scan."""
        parts: list[Part] = []
        for each in ranges:
            queue = self._queue(each.queue)
            in_files = min(each.end, queue.written_offset)
            pieces = cut_range(OffsetRange(each.queue, each.start, in_files), options, len(ranges))
            log_size, queue_size = self._store.log.file_size_bytes, queue.segments.file_size_bytes
            parts += [
                IndexPart(
                    root=self.root, broker_name=self.broker_name, range=piece, log_file_size_bytes=log_size,
                    queue_file_size_bytes=queue_size,
                )
                for piece in pieces
            ]  # fmt: skip
            if in_files < each.end:
                rest = (OffsetRange(each.queue, max(each.start, in_files), each.end),)
                topics = frozenset([each.queue.topic])
                parts += self._scan_parts(options, topics, rest, *self._log_span(rest), True)
        return parts


def _broker_name_of(root: str) -> str | None:
    """The broker's name, which a store shows only indirectly: ``TopicConfigManager`` creates a topic of that name, with
    one queue and the inherit bit (5.5.0)."""
    try:
        with open(f"{root}/config/topics.json", "rb") as file:
            table = fastjson.loads_untrusted(file.read(), dict).get("topicConfigTable", {})
        names = [
            name
            for name, config in table.items()
            if config["perm"] & PERM_INHERIT
            and config["readQueueNums"] == config["writeQueueNums"] == 1
            and not is_system_topic(name)
        ]
    except (OSError, ProtocolError, KeyError, TypeError, AttributeError):
        return None
    return names[0] if len(names) == 1 else None


def _committed_offsets(root: str) -> dict[str, dict[int, int]]:
    try:
        with open(f"{root}/config/consumerOffset.json", "rb") as file:
            return fastjson.loads_untrusted(file.read(), ConsumerOffsetsBody).offset_table
    except OSError:
        return {}
