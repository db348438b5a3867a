"""Finds messages for clients and tools: by key, by log offset, and the units of a consume queue
(``QueryMessageProcessor``, ``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from rmqproto.bodies.statistics import ConsumeQueueAnswer, ConsumeQueueItem
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import QueryMessageAnswer, QueryMessageHeader, ViewMessageHeader
from rmqproto.headers.statistics import QueryConsumeQueueHeader
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.held_answers import put_off
from rmqserver.broker.parts import BrokerParts
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, send_answer, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler
from rmqserver.store.disk.config_files import pretty
from rmqserver.store.queues.consume_queue import UNIT, ConsumeQueue
from rmqserver.store.results import QueryResult

QUERY_BYTES_MAX = 12 << 20
"""Bytes of messages in one answer to a query. A larger answer may not fit a frame."""

UNITS_MAX = 10_000
"""Units in one answer of 321."""


class MessageQuery:
    def __init__(self, parts: BrokerParts):
        self._config = parts.config
        self._topics = parts.topics
        self._clients = parts.clients
        self._store = parts.store
        self._reads = parts.reads
        self._consumer_filters = parts.consumer_filters

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_MESSAGE: self.by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self.by_log_offset,
            RequestCode.QUERY_CONSUME_QUEUE: self.consume_queue,
        }

    def by_key(self, request: Request[QueryMessageHeader], connection: Connection) -> bytes | None:
        """Finds messages by the hash of the key; the client compares topic and key. Soon after kill -9 the answer waits
        until the index has caught up with the log."""
        if self._store.has_whole_index:
            return self._by_key(request, connection)

        def answer() -> None:
            frame = self._by_key(request, connection)
            if frame is not None:
                send_answer(request, connection, frame)

        put_off(self._store, request, connection, answer)
        return None

    def _by_key(self, request: Request[QueryMessageHeader], connection: Connection) -> bytes | None:
        header = request.header
        kind, count = header.index_type or "K", header.max_num
        if header.unique_key_query:
            kind, count = "U", self._config.default_query_max_num
        count = min(count, self._config.max_msgs_num_batch)
        query = partial(
            self._store.query, header.topic, header.key, count, header.begin_timestamp, header.end_timestamp, kind
        )
        return self._reads.read(request, connection, query, partial(_found, request))

    def by_log_offset(self, request: Request[ViewMessageHeader], connection: Connection) -> bytes | None:
        log_offset = request.header.offset

        def then(record: bytes | None) -> bytes:
            if record is None:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {log_offset}")
            return success(request, body=record)

        if log_offset < 0:
            return then(None)
        return self._reads.read(request, connection, partial(self._store.get_record, log_offset), then)

    # --- units -------------------------------------------------------------------------------------------------------

    def consume_queue(self, request: Request[QueryConsumeQueueHeader], connection: Connection) -> bytes | None:
        """Units from ``index`` on. Where there is no such unit, the answer is success without a body, as in Apache's
        broker; also in a queue that no message has reached."""
        return self._reads.answer(request, connection, partial(self._consume_queue, request))

    def _consume_queue(self, request: Request[QueryConsumeQueueHeader]) -> bytes:
        header = request.header
        queue = self._store.queue(header.topic, header.queue_id)
        if queue is None and not self._has_queue(header.topic, header.queue_id):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
        if queue is None or not queue.min_offset <= header.index < queue.max_offset:
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

    def _has_queue(self, topic_name: str, queue_id: int) -> bool:
        topic = self._topics.get(topic_name)
        return topic is not None and 0 <= queue_id < max(topic.read_queue_nums, topic.write_queue_nums)

    def _add_filter(self, answer: ConsumeQueueAnswer, group: str, topic: str) -> None:
        answer.subscription_data = self._clients.subscription(group, topic)
        if answer.subscription_data is None:
            answer.filter_data = f"{group}@{topic} is not online!"
        else:
            found = self._consumer_filters.get(topic, group)
            answer.filter_data = "null" if found is None else pretty(msgspec.to_builtins(found.data)).decode()


def _found(request: Request[QueryMessageHeader], found: QueryResult) -> bytes:
    if not found.records:
        remark = "can not find message, maybe time range not correct"
        nothing = QueryMessageAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0)
        raise Refused(ResponseCode.QUERY_NOT_FOUND, remark, nothing)
    answer = QueryMessageAnswer(
        index_last_update_timestamp=found.last_update_timestamp_ms,
        index_last_update_phyoffset=found.last_update_log_offset,
    )
    return success(request, answer, b"".join(_fitting(found.records)))


def _items(queue: ConsumeQueue, first: int, count: int) -> list[ConsumeQueueItem]:
    items: list[ConsumeQueueItem] = []
    while data := queue.units(first + len(items), count - len(items)):
        items += (ConsumeQueueItem(physic_offset=at, physic_size=size, tags_code=code)
                  for at, size, code in UNIT.iter_unpack(data))  # fmt: skip
    return items


def _fitting(records: list[bytes]) -> Iterable[bytes]:
    """As many of the first records as fit one answer, at least one."""
    total = 0
    for record in records:
        total += len(record)
        if total > QUERY_BYTES_MAX and total > len(record):
            return
        yield record
