"""Committed offsets, for tools and replicas: which groups consume which topics, cloning, correcting, the whole
tables, and how far consumers lag (``AdminBrokerProcessor``, 5.5.0). All are queue offsets. Resets are in
``offset_requests.py``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig, TopicList
from rmqproto.bodies.statistics import (
    ConsumeOffset,
    ConsumeStats,
    ConsumeStatsList,
    CorrectionOffsets,
    DelayOffsets,
    GroupList,
    QueueTimeSpan,
    QueueTimeSpans,
    SubscriptionAnswer,
)
from rmqproto.codes import ResponseCode
from rmqproto.headers.tables import (
    BrokerConsumeStatsHeader,
    CloneGroupOffsetHeader,
    ConsumeStatsHeader,
    CorrectionOffsetHeader,
)
from rmqserver.broker.clients.clients import Clients
from rmqserver.broker.own_address import OwnAddress
from rmqserver.broker.relays.delay import Delays
from rmqserver.broker.stats import UNKNOWN_MS, BrokerStats, store_time_ms
from rmqserver.broker.tables.consumer_offsets import SEPARATOR, ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import Peer, Refused
from rmqserver.store.disk.cached_reads import one_by_one
from rmqserver.store.message_store import MessageStore

NEVER = 2**63 - 1
"""The correction of a queue in which the compared group is behind all others."""


class OffsetAdmin:
    def __init__(
        self, store: MessageStore, topics: TopicTable, offsets: ConsumerOffsets, clients: Clients, address: OwnAddress,
        delay: Delays,
    ):  # fmt: skip
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._store = store
        self._address = address
        self._delay = delay

    def groups_of_topic(self, topic: str) -> GroupList:
        """Groups that are online and subscribe, and groups that have offsets."""
        groups = dict.fromkeys([*self._clients.groups_subscribed_to(topic), *self._offsets.groups_of(topic)])
        return GroupList(group_list=list(groups))

    def topics_of_group(self, group: str, peer: Peer) -> TopicList:
        return TopicList(topic_list=self._offsets.topics_of(group), broker_addr=self._address.address(peer))

    def subscription(self, group: str, topic: str | None) -> SubscriptionAnswer:
        found = self._clients.subscription(group, topic or "")
        return SubscriptionAnswer(group=group, topic=topic, subscription_data=found)

    def clone(self, header: CloneGroupOffsetHeader) -> None:
        """Clones the offsets of all the group's topics if the request names none; Apache's broker then copies
        nothing."""
        for topic in [header.topic] if header.topic else self._offsets.topics_of(header.src_group):
            if self._topics.get(topic) is None:
                continue
            if not header.offline and self._clients.has_left(header.src_group, topic):
                continue
            for queue_id, queue_offset in self._offsets.queues(header.src_group, topic).items():
                self._offsets.commit(header.dest_group, topic, queue_id, queue_offset)

    def correction(self, header: CorrectionOffsetHeader) -> CorrectionOffsets:
        """By queue: the smallest offset of any group outside ``filter_groups``, or NEVER if that is ahead of the offset
        of ``compare_group``, if there is one."""
        left_out = set((header.filter_groups or "").split(","))
        found: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            if group.partition(SEPARATOR)[0] in left_out:
                continue
            for queue_id, queue_offset in self._offsets.queues(group, header.topic).items():
                if queue_offset >= self._store.min_offset(header.topic, queue_id):
                    found[queue_id] = min(found.get(queue_id, NEVER), queue_offset)
        compared = self._offsets.queues(header.compare_group, header.topic) if header.compare_group is not None else {}
        for queue_id, queue_offset in compared.items():
            if found.get(queue_id, NEVER) > queue_offset:
                found[queue_id] = NEVER
        return CorrectionOffsets(correction_offsets=found)

    def all_offsets(self) -> Callable[[], dict[str, Any]]:
        """A function for any thread that makes the whole table, with all keys quoted: an Apache slave cannot skip a
        table that it does not know if its keys are unquoted. With Apache's own master it therefore copies no offsets
        from the first pull on."""
        make_document = self._offsets.document(has_light_queues=True)

        def make() -> dict[str, Any]:
            document = make_document()
            pulls = {
                key: {str(queue_id): at for queue_id, at in each.items()}
                for key, each in document["pullOffsetTable"].items()
            }
            return dict(sorted((document | {"pullOffsetTable": pulls}).items()))

        return make

    def delay_offsets(self) -> DelayOffsets:
        return DelayOffsets(data_version=self._delay.data_version, offset_table=dict(self._delay.offsets))


class ConsumeStatsAdmin:
    """Each method returns a function that reads: a door calls it by ``Reads.read``."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable,
        offsets: ConsumerOffsets, clients: Clients, stats: BrokerStats, address: OwnAddress,
    ):  # fmt: skip
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._store = store
        self._stats = stats
        self._address = address
        self._clock_ms = store.clock_ms
        self._broker_name = config.broker_name

    def consume_stats(self, header: ConsumeStatsHeader) -> Callable[[], ConsumeStats]:
        group = header.consumer_group
        topics = list(self._asked_topics(group, header))
        queues = [(topic.topic_name, queue_id) for topic in topics for queue_id in range(topic.read_queue_nums)]
        read = one_by_one(lambda queue: self._queue_offsets(group, *queue), queues)

        def answered() -> ConsumeStats:
            offsets = read()
            answer = ConsumeStats(consume_tps=sum(self._stats.group_get_tps(each.topic_name, group) for each in topics))
            for (topic, queue_id), found in zip(queues, offsets, strict=True):
                pulled = self._offsets.pull_offset(group, topic, queue_id)
                found.pull_offset = max(found.consumer_offset, -1 if pulled is None else pulled)
                answer.offset_table[self._queue(topic, queue_id)] = found
            return answer

        return answered

    def _asked_topics(self, group: str, header: ConsumeStatsHeader) -> Iterator[TopicConfig]:
        asked = list(dict.fromkeys(name for name in (header.topic_list or "").split(";") if name))
        if not asked:
            asked = [header.topic] if header.topic else self._offsets.topics_of(group)
        return self._known_topics(group, asked)

    def _known_topics(self, group: str, topics: list[str]) -> Iterator[TopicConfig]:
        """Topics that exist and that the group has not left."""
        for name in topics:
            topic = self._topics.get(name)
            if topic is not None and not self._clients.has_left(group, name):
                yield topic

    def broker_consume_stats(self, header: BrokerConsumeStatsHeader, peer: Peer) -> Callable[[], ConsumeStatsList]:
        topics = {
            group: [
                topic
                for topic in self._known_topics(group, self._offsets.topics_of(group))
                if topic.order or not header.is_order
            ]
            for group in self._groups.all()
        }
        pairs = [(group, topic) for group, found in topics.items() for topic in found]

        read = one_by_one(lambda pair: self._topic_stats(*pair), pairs)

        def answered() -> ConsumeStatsList:
            stats = read()
            answer, left = ConsumeStatsList(broker_addr=self._address.address(peer)), iter(stats)
            answer.consume_stats_list = [{group: list(islice(left, len(found)))} for group, found in topics.items()]
            for each in (each for found in stats for each in found.offset_table.values()):
                answer.total_diff += each.broker_offset - each.consumer_offset
                answer.total_inflight_diff += each.pull_offset - each.consumer_offset
            return answer

        return answered

    def _topic_stats(self, group: str, topic: TopicConfig) -> ConsumeStats:
        """One topic of one group. Pull offsets stay 0 here, as in Apache's answer."""
        answer = ConsumeStats(consume_tps=self._stats.group_get_tps(topic.topic_name, group))
        for queue_id in range(topic.write_queue_nums):
            queue = self._queue(topic.topic_name, queue_id)
            answer.offset_table[queue] = self._queue_offsets(group, topic.topic_name, queue_id)
        return answer

    def _queue_offsets(self, group: str, topic: str, queue_id: int) -> ConsumeOffset:
        """The offsets of one queue; a group without an offset counts as at 0."""
        consumer_offset = max(0, self._offsets.committed(group, topic, queue_id) or 0)
        last_ms = store_time_ms(self._store, topic, queue_id, consumer_offset - 1) if consumer_offset > 0 else 0
        return ConsumeOffset(
            broker_offset=self._store.max_offset(topic, queue_id),
            consumer_offset=consumer_offset,
            last_timestamp=max(0, last_ms),
        )

    # --- times -------------------------------------------------------------------------------------------------------

    def time_span(self, topic: str, group: str) -> Callable[[], QueueTimeSpans]:
        found = self._topics.get(topic)
        if found is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        read = one_by_one(partial(self._queue_span, group, topic), range(found.write_queue_nums))
        return lambda: QueueTimeSpans(consume_time_span_set=read())

    def _queue_span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        min_offset, max_offset = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        min_ms = self._store.earliest_store_time(topic, queue_id)
        max_ms = store_time_ms(self._store, topic, queue_id, max_offset - 1)
        next_offset = max(min_offset, self._offsets.committed(group, topic, queue_id) or 0)
        consumed_ms = store_time_ms(self._store, topic, queue_id, next_offset - 1) if next_offset > 0 else min_ms
        waiting_ms = store_time_ms(self._store, topic, queue_id, next_offset)
        return QueueTimeSpan(
            message_queue=self._queue(topic, queue_id),
            min_time_stamp=min_ms,
            min_time_stamp_str=time_text(min_ms),
            max_time_stamp=max_ms,
            max_time_stamp_str=time_text(max_ms),
            consume_time_stamp=consumed_ms,
            consume_time_stamp_str=time_text(consumed_ms),
            delay_time=0 if waiting_ms == UNKNOWN_MS else self._clock_ms() - waiting_ms,
        )

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._broker_name, queue_id)


def time_text(timestamp_ms: int) -> str:
    """``2026-11-21#12:38:38:208``, local time (``UtilAll.formatDate`` with ``yyyy-MM-dd#HH:mm:ss:SSS``)."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return time.strftime("%Y-%m-%d#%H:%M:%S", time.localtime(seconds)) + f":{milliseconds:03d}"
