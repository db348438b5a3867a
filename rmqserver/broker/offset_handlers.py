"""QUERY_CONSUMER_OFFSET (14), UPDATE_CONSUMER_OFFSET (15): consumers read and store how far they have come
(``ConsumerManageProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers import OffsetAnswer, QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader
from rmqserver.answer import Refused, Request, success
from rmqserver.store.get_message import physical_memory_bytes

if TYPE_CHECKING:
    from rmqserver.broker.groups import GroupTable
    from rmqserver.broker.offsets import ConsumerOffsets
    from rmqserver.broker.topics import TopicTable
    from rmqserver.connection import Connection
    from rmqserver.dispatch import Handler
    from rmqserver.store.message_store import MessageStore


class OffsetHandlers:
    def __init__(self, store: MessageStore, topics: TopicTable, groups: GroupTable, offsets: ConsumerOffsets):
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.QUERY_CONSUMER_OFFSET: self._query, RequestCode.UPDATE_CONSUMER_OFFSET: self._update}

    def _query(self, request: Request[QueryConsumerOffsetHeader], connection: Connection) -> bytes:
        header = request.header
        committed = self._offsets.committed(header.consumer_group, header.topic, header.queue_id)
        if committed is not None and committed >= 0:
            return success(request, OffsetAnswer(offset=committed))
        if header.set_zero_if_not_found is False:
            text = "Not found, do not set to zero, maybe this group boot first"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, text)
        if self._is_whole_queue_near(header.topic, header.queue_id):
            return success(request, OffsetAnswer(offset=0))
        text = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        raise Refused(ResponseCode.QUERY_NOT_FOUND, text)

    def _is_whole_queue_near(self, topic: str, queue_id: int) -> bool:
        """Whether a new group should read the queue from its start whatever it asked for: it begins at 0 and its first
        message is not further back than memory reaches, so the queue is young."""
        queue = self._store.queue(topic, queue_id)
        unit = queue.unit(0) if queue is not None and queue.min_offset <= 0 else None
        if unit is None:
            return False
        reach_bytes = physical_memory_bytes() * self._store.options.memory_percent_for_messages // 100
        return self._store.visible_offset - unit[0] <= reach_bytes

    def _update(self, request: Request[UpdateConsumerOffsetHeader], connection: Connection) -> bytes:
        group, topic = request.header.consumer_group, request.header.topic
        queue_id, queue_offset = request.header.queue_id, request.header.commit_offset
        if group is None or self._groups.get(group) is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        if topic is None or self._topics.get(topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if queue_id is None:
            raise Refused(ResponseCode.INVALID_PARAMETER, "QueueId is null, topic is " + topic)
        if queue_offset is None:
            raise Refused(ResponseCode.INVALID_PARAMETER, "Offset is null, topic is " + topic)
        if self._offsets.has_reset(group, topic, queue_id):
            return success(request, remark="Offset has been previously reset")
        self._offsets.commit(group, topic, queue_id, queue_offset)
        return success(request)
