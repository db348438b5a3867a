"""Finding messages, for clients and tools: by key, by where they are stored, by time, and what a consume queue holds
(``QueryMessageProcessor``, ``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Iterable

from rmqproto.bodies import ConsumeQueueAnswer, ConsumeQueueItem
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.fastjson import dumps
from rmqproto.headers import (
    MaxOffsetHeader,
    OffsetAnswer,
    QueryConsumeQueueHeader,
    QueryMessageAnswer,
    QueryMessageHeader,
    QueueHeader,
    SearchOffsetHeader,
    TimestampAnswer,
    ViewMessageHeader,
)
from rmqserver.answer import UNSET_REMARK, Refused, Request, success
from rmqserver.broker.clients import Clients
from rmqserver.config import BrokerConfig
from rmqserver.connection import Connection
from rmqserver.dispatch import Handler
from rmqserver.store.consume_queue import ConsumeQueue
from rmqserver.store.message_store import MessageStore
from rmqserver.store.results import Boundary

QUERY_BYTES_MAX = 12 << 20
"""Bytes of messages in one answer to a query; what does not fit a frame would reach nobody."""

UNITS_MAX = 10_000
"""Units in one answer of 321."""


class MessageQuery:
    def __init__(self, config: BrokerConfig, clients: Clients, store: MessageStore):
        self._config = config
        self._clients = clients
        self._store = store

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_MESSAGE: self.by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self.by_log_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.offset_by_time,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_time,
            RequestCode.QUERY_CONSUME_QUEUE: self.consume_queue,
        }

    def by_key(self, request: Request[QueryMessageHeader], connection: Connection) -> bytes:
        """Found by the hash of the key: the asker compares topic and key."""
        header = request.header
        kind, count = header.index_type or "K", header.max_num
        if header.unique_key_query:
            kind, count = "U", self._config.default_query_max_num
        count = min(count, self._config.max_msgs_num_batch)
        found = self._store.query(header.topic, header.key, count, header.begin_timestamp, header.end_timestamp, kind)
        if not found.records:
            remark = "can not find message, maybe time range not correct"
            nothing = QueryMessageAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0)
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark, nothing)
        answer = QueryMessageAnswer(
            index_last_update_timestamp=found.last_update_timestamp_ms,
            index_last_update_phyoffset=found.last_update_log_offset,
        )
        return success(request, answer, b"".join(_fitting(found.records)))

    def by_log_offset(self, request: Request[ViewMessageHeader], connection: Connection) -> bytes:
        log_offset = request.header.offset
        record = self._store.get_record(log_offset) if log_offset >= 0 else None
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {log_offset}")
        return success(request, body=record)

    # --- queue offsets -----------------------------------------------------------------------------------------------

    def offset_by_time(self, request: Request[SearchOffsetHeader], connection: Connection) -> bytes:
        header = request.header
        boundary = Boundary.UPPER if (header.boundary_type or "").upper() == "UPPER" else Boundary.LOWER
        found = self._store.offset_for_time(header.topic, header.queue_id, header.timestamp, boundary)
        return success(request, OffsetAnswer(offset=found))

    def max_offset(self, request: Request[MaxOffsetHeader], connection: Connection) -> bytes:
        queue = self._store.queue(request.header.topic, request.header.queue_id)
        if queue is None:
            return success(request, OffsetAnswer(offset=0))
        return success(
            request, OffsetAnswer(offset=queue.max_offset if request.header.committed else queue.next_offset)
        )

    def min_offset(self, request: Request[QueueHeader], connection: Connection) -> bytes:
        found = self._store.min_offset(request.header.topic, request.header.queue_id)
        return success(request, OffsetAnswer(offset=found), remark="")

    def earliest_time(self, request: Request[QueueHeader], connection: Connection) -> bytes:
        found = self._store.earliest_store_time(request.header.topic, request.header.queue_id)
        return success(request, TimestampAnswer(timestamp=found))

    # --- units -------------------------------------------------------------------------------------------------------

    def consume_queue(self, request: Request[QueryConsumeQueueHeader], connection: Connection) -> bytes:
        """Units from ``index`` on. Beyond the queue the answer is success without a body, as in Apache's broker."""
        header = request.header
        queue = self._store.queue(header.topic, header.queue_id)
        if queue is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
        if not queue.min_offset <= header.index < queue.max_offset:
            where = f"{header.queue_id}@{header.topic}"
            return success(request, remark=f"Index {header.index} of {where} is not exist!")
        answer = ConsumeQueueAnswer(
            max_queue_index=queue.max_offset,
            min_queue_index=queue.min_offset,
            queue_data=_items(queue, header.index, min(header.count, UNITS_MAX)),
        )
        if header.consumer_group is not None:
            self._add_filter(answer, header.consumer_group, header.topic)
        return success(request, body=dumps(answer), remark=UNSET_REMARK)

    def _add_filter(self, answer: ConsumeQueueAnswer, group: str, topic: str) -> None:
        online = self._clients.consumers.get(group)
        answer.subscription_data = online.subscriptions.get(topic) if online is not None else None
        # The text of a compiled filter; there is none, since filters are not kept beyond the pull that uses them.
        answer.filter_data = "null" if answer.subscription_data is not None else f"{group}@{topic} is not online!"


def _items(queue: ConsumeQueue, first: int, count: int) -> list[ConsumeQueueItem]:
    items = []
    for queue_offset in range(first, min(first + count, queue.max_offset)):
        unit = queue.unit(queue_offset)
        if unit is None:
            break
        log_offset, size_bytes, tags_code = unit
        items.append(ConsumeQueueItem(physic_offset=log_offset, physic_size=size_bytes, tags_code=tags_code))
    return items


def _fitting(records: list[bytes]) -> Iterable[bytes]:
    """The first records, at least one, that fit one answer."""
    total = 0
    for record in records:
        total += len(record)
        if total > QUERY_BYTES_MAX and total > len(record):
            return
        yield record
