"""A read of a live cluster, cut into partitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from rmqproto.perm import PERM_READ
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import is_silence, persist
from rmqreplay.source.queue_ranges import DataLossError, resolve
from spark_tools.source_options import ReadOptions


def cluster_of(options: ReadOptions) -> LiveCluster:
    """The cluster of a live read; close it."""
    assert options.name_server is not None
    return LiveCluster(
        options.name_server, options.access, read_from=options.read_from, reader_group=options.reader_group
    )


def plan_live(cluster: LiveCluster, options: ReadOptions) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """The partitions, and the requested ranges that are gone."""
    cluster.topics()  # a name server that does not answer is not waited for: its address may be wrong
    timeout_s = options.read_timeout_ms / 1000
    resolved = persist(lambda: resolve(options, cluster), cluster.forget_routes, timeout_s, passes=is_silence)
    if options.fail_on_data_loss:
        _check_readable(cluster, {each.queue.topic for each in resolved.ranges})
    if options.sql92 is not None:
        cluster.check_sql92(resolved.ranges, options.sql92)
    parts = [piece for each in resolved.ranges for piece in cut_range(each, options, len(resolved.ranges))]
    return parts, resolved.gaps


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
