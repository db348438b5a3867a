"""Consumers query and commit their offsets (``ConsumerManageProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.codes import ResponseCode
from rmqproto.headers.consuming import (
    MaxOffsetHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from rmqproto.names import lite_queue_name
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.operation import Refused
from rmqserver.store.queues.reader import physical_memory_bytes
from rmqserver.store.results import Boundary

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore


class CommittedOffsets:
    def __init__(self, store: MessageStore, topics: TopicTable, groups: GroupTable, offsets: ConsumerOffsets):
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    def query(self, header: QueryConsumerOffsetHeader) -> int:
        """Reads the queue offset where the group goes on. Raises Refused with 22 if it has none and the client is to
        choose."""
        committed = self._offsets.committed(header.consumer_group, header.topic, header.queue_id)
        if committed is not None and committed >= 0:
            return committed
        if header.set_zero_if_not_found is False:
            text = "Not found, do not set to zero, maybe this group boot first"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, text)
        if is_whole_queue_near(self._store, header.topic, header.queue_id):
            return 0
        text = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        raise Refused(ResponseCode.QUERY_NOT_FOUND, text)

    def commit(self, header: UpdateConsumerOffsetHeader) -> bool:
        """Stores the group's offset. Returns False and changes nothing while an operator's reset waits to be delivered.
        Raises Refused if group, topic or a number is missing, and TableFull."""
        group, topic = header.consumer_group, header.topic
        queue_id, queue_offset = header.queue_id, header.commit_offset
        if group is None or self._groups.get(group) is None:
            remark = f"Group {'null' if group is None else group} not exist!"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if topic is None or self._topics.get(topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {'null' if topic is None else topic} not exist!")
        if queue_id is None:
            raise Refused(ResponseCode.INVALID_PARAMETER, "QueueId is null, topic is " + topic)
        if queue_offset is None:
            raise Refused(ResponseCode.INVALID_PARAMETER, "Offset is null, topic is " + topic)
        if self._offsets.has_reset(group, topic, queue_id):
            return False
        self._offsets.commit(group, topic, queue_id, queue_offset)
        return True


def is_whole_queue_near(store: MessageStore, topic: str, queue_id: int) -> bool:
    """Whether a new group should read the queue from its start, whatever it asked for: the queue begins at 0 and its
    first message is no further back than memory reaches, so the queue is young."""
    queue = store.queues.find(topic, queue_id)
    unit = queue.unit(0) if queue is not None and queue.min_offset <= 0 else None
    if unit is None:
        return False
    reach_bytes = physical_memory_bytes() * store.options.memory_percent_for_messages // 100
    return store.confirmed_offset - unit[0] <= reach_bytes


def start_near_end(store: MessageStore, topic: str, queue_id: int) -> int:
    """Where a group without an offset begins to pop, unless it asks for the first message: at the start of a young
    queue, at the last message of an old one."""
    if is_whole_queue_near(store, topic, queue_id):
        return 0
    return max(store.max_offset(topic, queue_id) - 1, 0)


class QueueEnds:
    """Where queues begin and end, and when messages were stored (``AdminBrokerProcessor``, 5.5.0). An open queue knows
    its ends without a read; the other questions read the store: a door asks them by ``Reads.read``."""

    def __init__(self, store: MessageStore):
        self._store = store

    def offset_by_time(self, header: SearchOffsetHeader) -> int:
        topic = lite_queue_name(header.topic, header.lite_topic) if header.lite_topic else header.topic
        boundary = Boundary.UPPER if (header.boundary_type or "").upper() == "UPPER" else Boundary.LOWER
        return self._store.offset_for_time(topic, header.queue_id, header.timestamp, boundary)

    def max_offset(self, header: MaxOffsetHeader) -> int:
        """NotCached if the queue is not open yet."""
        queue = self._store.queues.find(header.topic, header.queue_id, opens=False)
        if queue is None:
            return 0
        return queue.max_offset if header.is_committed else queue.next_offset

    def min_offset(self, header: QueueHeader) -> int:
        """NotCached if the queue is not open yet."""
        queue = self._store.queues.find(header.topic, header.queue_id, opens=False)
        return 0 if queue is None else queue.min_offset

    def open(self, header: QueueHeader) -> object:
        """Opens the queue, if it has messages."""
        return self._store.queues.find(header.topic, header.queue_id)

    def earliest_time(self, header: QueueHeader) -> int:
        """When the first message was stored, in ms since the epoch."""
        return self._store.earliest_store_time(header.topic, header.queue_id)
