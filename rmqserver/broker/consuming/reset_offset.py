"""Moving a group to another offset (``AdminBrokerProcessor.resetOffset``,
``Broker2Client.resetOffset``, 5.5.0).

By default the broker moves the group itself: it stores the new offsets, and tells the next pull of each queue to go on
there. With ``useServerSideResetOffset`` off, it computes the offsets and pushes them to the online clients (220). All
offsets are queue offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import QueueOffset, ResetOffsets, ResetOffsetsForCpp
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.client_calls import ResetOffsetHeader
from rmqproto.wire.fastjson import ObjectMap, dumps
from rmqserver.broker.clients.clients import Clients, refuse_older
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import Refused
from rmqserver.store.disk.cached_reads import one_by_one
from rmqserver.store.message_store import MessageStore

NO_OFFSET = -1


class ResetOffset:
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
            self._reset_here(header, wanted)
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

    def _reset_here(self, header: ResetOffsetHeader, wanted: dict[int, int]) -> None:
        if not wanted:
            raise Refused(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        topic, group = header.topic, header.group
        for queue_id, queue_offset in wanted.items():
            self._offsets.assign_reset(group, topic, queue_id, queue_offset)

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
