"""Offsets of consumers: queries and commits (``ConsumerManageProcessor``), where queues begin and end, and moving a
group to another offset (``AdminBrokerProcessor.resetOffset``, ``Broker2Client.resetOffset``, 5.5.0). All are queue
offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import QueueOffset, ResetOffsets, ResetOffsetsForCpp
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import (
    MaxOffsetHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    ResetOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from rmqproto.names import lite_queue_name
from rmqproto.wire.fastjson import ObjectMap, dumps
from rmqserver.broker.clients.clients import Clients, refuse_older
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import Refused
from rmqserver.store.disk.cached_reads import one_by_one
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.reader import physical_memory_bytes
from rmqserver.store.results import Boundary


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


NO_OFFSET = -1


class ResetOffset:
    """By default the broker moves the group itself: it stores the new offsets, and tells the next pull of each queue to
    go on there. With ``useServerSideResetOffset`` off, it computes the offsets and pushes them to the online clients
    (220)."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable,
        offsets: ConsumerOffsets, clients: Clients,
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._store = store

    @property
    def moves_itself(self) -> bool:
        """Whether the broker moves the group, and not its clients."""
        return self._config.use_server_side_reset_offset

    def wanted(self, header: ResetOffsetHeader) -> Callable[[], dict[int, int]]:
        """A function that reads the new offsets, by queue id. Raises Refused for an unknown topic or group."""
        return self._wanted_here(header) if self.moves_itself else self._wanted_of_clients(header)

    def reset(self, header: ResetOffsetHeader, wanted: dict[int, int], language: str) -> ResetOffsets:
        """Moves the group to the offsets that ``wanted`` has read. ``language``: of who asks, because clients of C++
        take another form. Raises Refused if there is nothing, or nobody, to move."""
        if self.moves_itself:
            if not wanted:
                raise Refused(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
            for queue_id, queue_offset in wanted.items():
                self._offsets.assign_reset(header.group, header.topic, queue_id, queue_offset)
        else:
            self._reset_in_clients(header, wanted, language)
        return self._told(header.topic, wanted)

    def _told(self, topic: str, wanted: Mapping[int, int]) -> ResetOffsets:
        broker = self._config.broker_name
        table = {MessageQueue(topic, broker, queue_id): queue_offset for queue_id, queue_offset in wanted.items()}
        return ResetOffsets(offset_table=ObjectMap(table))

    # --- in the broker -----------------------------------------------------------------------------------------------

    def _wanted_here(self, header: ResetOffsetHeader) -> Callable[[], dict[int, int]]:
        """A reading function of the new offsets by queue id."""
        topic, group = header.topic, header.group
        found = self._topics.get(topic)
        if found is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if self._groups.get(group) is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
        if header.queue_id >= 0:
            return lambda: {header.queue_id: self._one_queue(header)}
        return self._searched(topic, found.read_queue_nums, header.timestamp)

    def _one_queue(self, header: ResetOffsetHeader) -> int:
        topic, queue_id, queue_offset = header.topic, header.queue_id, header.offset
        if queue_offset is None or queue_offset == NO_OFFSET:
            return self._offset_for(topic, queue_id, header.timestamp)
        min_offset, max_offset = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        if not min_offset <= queue_offset <= max_offset + 1:
            remark = f"Target offset {queue_offset} not in consume queue range [{min_offset}-{max_offset}]"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return queue_offset

    def _offset_for(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after the time; a negative time means the end."""
        if timestamp_ms < 0:
            return self._store.max_offset(topic, queue_id)
        return self._store.offset_for_time(topic, queue_id, timestamp_ms)

    def _searched(self, topic: str, queue_count: int, timestamp_ms: int) -> Callable[[], dict[int, int]]:
        search = one_by_one(lambda queue_id: self._offset_for(topic, queue_id, timestamp_ms), range(queue_count))
        return lambda: dict(enumerate(search()))

    # --- in the clients ----------------------------------------------------------------------------------------------

    def _wanted_of_clients(self, header: ResetOffsetHeader) -> Callable[[], dict[int, int]]:
        """A reading function of the new offsets by queue id. Without ``is_force`` a group is moved only backwards."""
        topic, group = header.topic, header.group
        found = self._topics.get(topic)
        if found is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        committed: dict[int, int] = {}
        for queue_id in range(found.write_queue_nums):
            queue_offset = self._offsets.committed(group, topic, queue_id)
            if queue_offset is None:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
            committed[queue_id] = queue_offset
        search = self._searched(topic, len(committed), header.timestamp)
        if header.is_force:
            return search
        return lambda: {queue_id: min(found, committed[queue_id]) for queue_id, found in search().items()}

    def _reset_in_clients(self, header: ResetOffsetHeader, wanted: Mapping[int, int], language: str) -> None:
        topic, group, timestamp_ms = header.topic, header.group, header.timestamp
        online = self._clients.consumers.get(group)
        if online is None or not online.members:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {timestamp_ms}"
            )
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        members = list(online.members.values())
        for client in members:
            refuse_older(client)
        body = dumps(self._told(topic, wanted))
        if language == "CPP":
            items = [
                QueueOffset(topic=topic, broker_name=self._config.broker_name, queue_id=queue_id, offset=queue_offset)
                for queue_id, queue_offset in wanted.items()
            ]
            body = dumps(ResetOffsetsForCpp(offset_table=items))
        told = ResetOffsetHeader(topic=topic, group=group, timestamp=timestamp_ms)
        for client in members:
            client.peer.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, told, body)
