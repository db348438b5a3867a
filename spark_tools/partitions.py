"""A read, cut into partitions: of a live cluster, or of a store directory.

There are two ways to read a store. ``scan`` goes through the commit log and keeps the wanted records. ``index`` goes
through the consume queues and reads only the wanted records. A queue whose files are gone can only be scanned.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rmqproto.codes import PERM_READ
from rmqproto.errors import StorageError
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import PullRules, check_allowed, is_silence, persist
from rmqreplay.source.queue_ranges import DataLossError, Resolved, resolve, wanted_topics
from rmqreplay.source.store_view import StoreView
from spark_tools.source_options import ReadOptions


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


Part = ScanPart | IndexPart | OffsetRange
"""Of a store, or of a queue of a live cluster."""


@dataclass
class Planned:
    """A resolved read: numbers only. ``gaps``: the requested ranges that are gone; ``not_searched``: as of
    ``LiveCluster``."""

    parts: list[Part] = field(default_factory=list)
    gaps: list[OffsetRange] = field(default_factory=list)
    not_searched: list[str] = field(default_factory=list)


def cluster_of(options: ReadOptions) -> LiveCluster:
    """The cluster of a live read; close it."""
    assert options.name_server is not None
    return LiveCluster(
        options.name_server, options.access, read_from=options.read_from, reader_group=options.reader_group
    )


def plan_read(options: ReadOptions) -> Planned:
    """Resolves the options once, by asking the cluster or reading the stores."""
    if options.name_server is not None:
        with cluster_of(options) as cluster:
            return plan_live(cluster, options)
    planned = Planned()
    for number, path in enumerate(options.paths):
        name = options.broker_names[number] if number < len(options.broker_names) else None
        with StoreView(path, name) as view:
            plan = plan_store(view, options)
            planned.parts += plan.parts
            planned.gaps += plan.gaps
    return planned


def plan_live(cluster: LiveCluster, options: ReadOptions) -> Planned:
    cluster.topics()  # a name server that does not answer is not waited for: its address may be wrong
    timeout_s = options.read_timeout_ms / 1000
    resolved = persist(lambda: resolve(options, cluster), cluster.forget_routes, timeout_s, passes=is_silence)
    if options.fail_on_data_loss:
        _check_readable(cluster, {each.queue.topic for each in resolved.ranges})
    places = {each.queue: each.start for each in resolved.ranges if each.count > 0}
    check_allowed(cluster, places, PullRules(batch_size=1, group=options.reader_group))
    if options.sql92 is not None:
        cluster.check_sql92(resolved.ranges, options.sql92)
    parts: list[Part] = [piece for each in resolved.ranges for piece in cut_range(each, options, len(resolved.ranges))]
    return Planned(parts, resolved.gaps, cluster.not_searched)


def _check_readable(cluster: LiveCluster, topics: Iterable[str]) -> None:
    """DataLossError for a topic that nobody may read on one of its brokers: what that broker has would be left out of
    the rest without a word."""
    for topic in sorted(topics):
        closed = sorted(name for name, (queue, _) in cluster.route(topic).items() if not queue.perm & PERM_READ)
        if closed:
            raise DataLossError(
                f"nobody may read {topic} on {', '.join(closed)}: its permission there lacks R",
                hint="failOnDataLoss=false reads what the other brokers have",
            )


def cut_range(wanted: OffsetRange, options: ReadOptions, range_count: int) -> list[OffsetRange]:
    """The range in as many pieces as minPartitions and maxRecordsPerPartition require; none if it is empty."""
    if wanted.count <= 0:
        return []
    pieces = -(-options.min_partitions // max(range_count, 1))
    if options.records_per_partition_max:
        pieces = max(pieces, -(-wanted.count // options.records_per_partition_max))
    pieces = max(1, min(pieces, wanted.count))
    edges = [wanted.start + wanted.count * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(wanted.queue, start, end) for start, end in itertools.pairwise(edges)]


TASKS_MIN = 64
"""So few queues have a task each, whatever they hold."""
TASK_MESSAGES_MIN = 4096
"""Half of what a task costs before it reads, in messages of 1 KiB."""


def task_parts(parts: Sequence[Part], options: ReadOptions) -> list[list[Part]]:
    """The parts of each task, always the same for the same parts. One each; where many queues have few messages, as
    many queues in one as have TASK_MESSAGES_MIN together: 1,000 tasks would take a minute for nothing."""
    counts = [each.count for each in parts if isinstance(each, OffsetRange)]
    tasks = max(TASKS_MIN, options.min_partitions, -(-sum(counts) // TASK_MESSAGES_MIN))
    alone = [[each] for each in parts]
    if len(counts) < len(parts) or len(parts) <= tasks or options.records_per_partition_max:
        return alone
    shared: list[list[Part]] = [[] for _ in range(tasks)]
    before = itertools.accumulate(counts, initial=0)
    for each, at in zip(parts, before, strict=False):
        shared[at * tasks // sum(counts)].append(each)
    found = [each for each in shared if each]
    return found if len(found) >= options.min_partitions else alone


# --- store files -----------------------------------------------------------------------------------------------------

INDEX_SHARE_MAX = 0.2
"""If more than this part of all messages is wanted, reading the whole log is cheaper than picking records."""

PARTS_PER_CORE = 2
SPLIT_SIZE_BYTES_MIN = 16 << 20
"""Splits should be so many that no core is idle at the end, but none so small that starting its task costs more than
reading it."""


def plan_store(view: StoreView, options: ReadOptions) -> Planned:
    """How to read what ``options`` ask for, cut into partitions. StorageError if damage ends the log too early and
    ``on_corrupt`` is fail."""
    if options.on_corrupt == "fail" and 0 < view.flushed_record_offset >= view.log_end:
        raise StorageError(
            f"{view.root}: the log is damaged at log offset {view.log_end}, and the record at "
            f"{view.flushed_record_offset} was flushed",
            hint="onCorrupt=skip reads what is before it; rmqadmin store verify shows the damage",
        )
    lost = _topics_without_queue(view, options)
    resolved = resolve(options, view) if not lost else Resolved()
    ranges = resolved.ranges
    plan = Planned(gaps=resolved.gaps)
    everything = _is_everything(options)
    if options.mode != "scan" and not lost and (options.mode == "index" or _is_sparse(view, ranges)):
        plan.parts = _index_parts(view, ranges, options)
    elif everything or lost:
        topics = None if everything and not lost else frozenset(wanted_topics(options, view.topics()))
        internal = options.include_internal_topics or options.topics is not None
        plan.parts = _scan_parts(view, options, topics, None, view.log_start, view.log_end, internal)
    elif ranges:
        plan.parts = _scan_parts(
            view, options, frozenset(each.queue.topic for each in ranges), tuple(ranges), *_log_span(view, ranges), True
        )  # fmt: skip
    return plan


def _topics_without_queue(view: StoreView, options: ReadOptions) -> bool:
    """Whether a wanted topic may have lost its consume queue, so that only the log shows its messages."""
    named = options.topics if options.topics is not None else []
    return options.mode != "index" and (any(not view.queues(topic) for topic in named) or not view.topics())


def _is_everything(options: ReadOptions) -> bool:
    return (
        options.topics is None
        and options.topic_pattern is None
        and options.assigned is None
        and options.start.keyword == "earliest"
        and options.end.keyword == "latest"
        and not (options.start.table or options.end.table)
        and not (options.start.timestamps_ms or options.end.timestamps_ms)
    )


def _is_sparse(view: StoreView, ranges: Sequence[OffsetRange]) -> bool:
    total = sum(queue.max_offset - queue.min_offset for queue in view.store.queues.all())
    return sum(each.count for each in ranges) <= total * INDEX_SHARE_MAX


def _log_span(view: StoreView, ranges: Sequence[OffsetRange]) -> tuple[int, int]:
    """The log offsets that enclose all messages of the ranges."""
    begin, end = view.log_end, view.log_start
    for each in ranges:
        queue = view.consume_queue(each.queue)
        first, last = queue.unit(each.start), queue.unit(each.end - 1)
        begin = min(begin, first[0] if first else view.log_start)
        end = max(end, last[0] + last[1] if last else view.log_end)
    return begin, end


def _scan_parts(
    view: StoreView,
    options: ReadOptions,
    topics: frozenset[str] | None,
    ranges: tuple[OffsetRange, ...] | None,
    begin: int,
    end: int,
    internal: bool,
) -> list[Part]:
    segments = view.store.log.segments
    wanted_count = max(options.min_partitions, PARTS_PER_CORE * (os.cpu_count() or 1))
    smallest = 1 if options.min_partitions else SPLIT_SIZE_BYTES_MIN
    split = min(options.split_size_bytes, max(smallest, -(-(end - begin) // wanted_count)))
    parts: list[Part] = []
    for base in segments.bases:
        at, file_end = max(base, begin), min(base + segments.file_size_bytes, end)
        while at < file_end:
            stop = min(at + split, file_end)
            parts.append(ScanPart(
                root=view.root, broker_name=view.broker_name, base=base, begin=at, end=stop, topics=topics,
                ranges=ranges, internal=internal,
            ))  # fmt: skip
            at = stop
    return parts


def _index_parts(view: StoreView, ranges: Sequence[OffsetRange], options: ReadOptions) -> list[Part]:
    """Parts of whole queues, cut to reach the wanted number. Units that recovery found only in the log are read by
    a scan."""
    parts: list[Part] = []
    for each in ranges:
        queue = view.consume_queue(each.queue)
        in_files = min(each.end, queue.written_offset)
        pieces = cut_range(OffsetRange(each.queue, each.start, in_files), options, len(ranges))
        log_size, queue_size = view.store.log.file_size_bytes, queue.segments.file_size_bytes
        parts += [
            IndexPart(
                root=view.root, broker_name=view.broker_name, range=piece, log_file_size_bytes=log_size,
                queue_file_size_bytes=queue_size,
            )
            for piece in pieces
        ]  # fmt: skip
        if in_files < each.end:
            rest = (OffsetRange(each.queue, max(each.start, in_files), each.end),)
            topics = frozenset([each.queue.topic])
            parts += _scan_parts(view, options, topics, rest, *_log_span(view, rest), True)
    return parts
