"""The ends of queues, and how far groups have come: ``queues`` and ``offsets``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset, TopicOffset, lag_of, unread_offset
from rmqproto.codes import NOBODY_THERE
from rmqproto.errors import RefusedError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group
from rmqreplay.source.live import LiveCluster
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.found.found_tables import GROUPS, TOPICS
from rmqserver.store.found.inventory import FoundQueue, inventory
from rmqserver.store.found.survey import survey

Values = dict[str, Any]
"""A row of a table; times are ms."""


def live_queues(cluster: LiveCluster, topics: Iterable[str]) -> Iterator[Values]:
    for topic in topics:
        told: dict[MessageQueue, TopicOffset] = {}
        for broker_name in cluster.route(topic):
            told |= cluster.admin.topic_stats(cluster.master(topic, broker_name), topic).offset_table
        for queue in cluster.queues(topic):
            if queue not in told:  # past the topic's counts
                ends = cluster.admin.queue_ends(cluster.reading_address(queue), queue)
                if ends.max_offset > ends.min_offset:
                    told[queue] = ends
        for queue, ends in sorted(told.items()):
            yield _live_queue(cluster, queue, ends)


def _live_queue(cluster: LiveCluster, queue: MessageQueue, ends: TopicOffset) -> Values:
    topic, oldest_ms = queue.topic, None
    if ends.max_offset > ends.min_offset:
        address = cluster.master(topic, queue.broker_name)
        oldest_ms = cluster.admin.earliest_store_time(address, topic, queue.queue_id)
    return _queue_values(queue, ends.min_offset, ends.max_offset) | {
        "unread": queue.queue_id >= cluster.route(topic)[queue.broker_name][0].read_queue_nums,
        "oldestTimestamp": oldest_ms,
        "newestTimestamp": ends.last_update_timestamp or None,
    }


def _queue_values(queue: MessageQueue, min_offset: int, max_offset: int) -> Values:
    return {
        "topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id, "minOffset": min_offset,
        "maxOffset": max_offset, "messageCount": max_offset - min_offset,
    }  # fmt: skip


def store_queues(path: str, broker_name: str, topics: list[str] | None) -> Iterator[Values]:
    """``topics`` None: all."""
    for one in _queues_of(path):
        if topics is None or one.topic in topics:
            queue = MessageQueue(one.topic, broker_name, one.queue_id)
            yield _queue_values(queue, one.min_offset, one.max_offset) | {
                "oldestTimestamp": one.oldest_ms, "newestTimestamp": one.newest_ms, "problem": one.problem,
            }  # fmt: skip


def _queues_of(path: str) -> list[FoundQueue]:
    with inventory(survey(path, OsDisk())) as opened:
        return opened.queues()


def live_offsets(cluster: LiveCluster, groups: list[str] | None) -> Iterator[Values]:
    """``groups`` None: all that have offsets and are not the system's."""
    addresses = {
        name: broker.master_addr
        for name, broker in cluster.admin.cluster_info().broker_addr_table.items()
        if broker.master_addr is not None
    }
    committed = {name: cluster.admin.all_consumer_offsets(addr).offset_table for name, addr in addresses.items()}
    known = {key.partition("@")[2] for table in committed.values() for key in table}
    for group in sorted(known) if groups is None else dict.fromkeys(groups):
        if groups is None and is_system_group(group):
            continue
        found: dict[MessageQueue, ConsumeOffset] = {}
        for address in addresses.values():
            found |= _told_offsets(cluster, address, group)
        unread = _unread(cluster, group, committed)
        for queue, entry in sorted((found | unread).items()):
            yield _offset_values(group, queue, max(entry.consumer_offset, 0), entry.broker_offset, lag_of(entry)) | {
                "inflightCount": max(entry.pull_offset, 0) - max(entry.consumer_offset, 0),
                "unread": queue in unread,
                "lastConsumedTimestamp": entry.last_timestamp or None,
            }


def _told_offsets(cluster: LiveCluster, address: str, group: str) -> dict[MessageQueue, ConsumeOffset]:
    try:
        return cluster.admin.consume_stats(address, group).offset_table
    except RefusedError as error:
        if error.code not in NOBODY_THERE:
            raise
        return {}


def _unread(
    cluster: LiveCluster, group: str, committed: dict[str, dict[str, dict[int, int]]]
) -> dict[MessageQueue, ConsumeOffset]:
    """What the group has left in queues that consumers do not read: brokers tell no lag there."""
    found = {}
    for broker_name, table in committed.items():
        for key, offsets in table.items():
            topic, _, name = key.partition("@")
            if name != group or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or broker_name not in cluster.route(topic):
                continue
            read_count = cluster.route(topic)[broker_name][0].read_queue_nums
            for queue in cluster.broker_queues(topic, broker_name):
                if queue.queue_id >= read_count:
                    ends = cluster.admin.queue_ends(cluster.reading_address(queue), queue)
                    if (entry := unread_offset(offsets.get(queue.queue_id), ends)) is not None:
                        found[queue] = entry
    return found


def live_groups(cluster: LiveCluster) -> set[str] | None:
    """The groups that are known to any broker that answers; None if that may not be asked."""
    found: set[str] = set()
    try:
        for broker in cluster.admin.cluster_info().broker_addr_table.values():
            if broker.master_addr is not None:
                found |= cluster.admin.all_groups(broker.master_addr).subscription_group_table.keys()
                offsets = cluster.admin.all_consumer_offsets(broker.master_addr).offset_table
                found |= {key.partition("@")[2] for key in offsets}
    except RefusedError:
        return None
    return found | _groups_with_letters(cluster.topics())


def store_groups(path: str) -> set[str]:
    with inventory(survey(path, OsDisk())) as opened:
        configured = opened.tables.used(GROUPS)
        found = {key.partition("@")[2] for key in opened.tables.offsets()}
        topics = [one.topic for one in opened.queues()]
    return found | set(configured.entries if configured is not None else ()) | _groups_with_letters(topics)


def store_topics(path: str) -> set[str]:
    with inventory(survey(path, OsDisk())) as opened:
        return {one.topic for one in opened.queues()} | (opened.tables.keys(TOPICS) or set())


def _groups_with_letters(topics: list[str]) -> set[str]:
    return {topic.removeprefix(DLQ_PREFIX) for topic in topics if topic.startswith(DLQ_PREFIX)}


def _offset_values(group: str, queue: MessageQueue, offset: int, end: int, lag_count: int) -> Values:
    return {
        "group": group, "topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id,
        "consumerOffset": offset, "brokerOffset": end, "lagCount": lag_count,
    }  # fmt: skip


def store_offsets(path: str, broker_name: str, groups: list[str] | None) -> Iterator[Values]:
    """``groups`` None: all."""
    with inventory(survey(path, OsDisk())) as opened:
        found = opened.offsets(opened.queues())
    for one in found:
        if groups is None or one.group in groups:
            queue = MessageQueue(one.topic, broker_name, one.queue_id)
            yield _offset_values(one.group, queue, one.offset, one.max_offset, one.lag_count)
