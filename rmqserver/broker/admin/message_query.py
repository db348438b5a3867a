"""Finds messages for clients and tools: by key, by log offset, and the units of a consume queue
(``QueryMessageProcessor``, ``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from rmqproto.bodies.statistics import ConsumeQueueAnswer, ConsumeQueueItem
from rmqproto.codes import ResponseCode
from rmqproto.headers.consuming import QueryMessageAnswer, QueryMessageHeader
from rmqproto.headers.tables import QueryConsumeQueueHeader
from rmqserver.broker.clients.clients import Clients
from rmqserver.broker.tables.consumer_filters import ConsumerFilters
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import Refused
from rmqserver.store.disk.config_files import pretty
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.consume_queue import UNIT, ConsumeQueue
from rmqserver.store.results import QueryResult

QUERY_BYTES_MAX = 12 << 20
"""Bytes of messages in one answer to a query. A larger answer may not fit a frame."""

UNITS_MAX = 10_000
"""Units in one answer of 321."""


class MessageQuery:
    """Each method reads: a door calls it by ``Reads.read``."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, clients: Clients,
        consumer_filters: ConsumerFilters,
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._clients = clients
        self._store = store
        self._consumer_filters = consumer_filters

    def by_key(self, header: QueryMessageHeader) -> QueryResult:
        """Messages by the hash of the key, as many as fit one answer; the client compares topic and key. Raises Refused
        if there is none."""
        kind, count = header.index_type or "K", header.max_num
        if header.unique_key_query:
            kind, count = "U", self._config.default_query_max_num
        count = min(count, self._config.max_msgs_num_batch)
        found = self._store.query(header.topic, header.key, count, header.begin_timestamp, header.end_timestamp, kind)
        if not found.records:
            remark = "can not find message, maybe time range not correct"
            nothing = QueryMessageAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0)
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark, nothing)
        return replace(found, records=list(_fitting(found.records)))

    def by_log_offset(self, log_offset: int) -> bytes:
        """The record there. Raises Refused if there is none."""
        record = self._store.get_record(log_offset) if log_offset >= 0 else None
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {log_offset}")
        return record

    # --- units -------------------------------------------------------------------------------------------------------

    def consume_queue(self, header: QueryConsumeQueueHeader) -> ConsumeQueueAnswer | None:
        """Units from ``index`` on. None where there is no such unit, also in a queue that no message has reached."""
        queue = self._store.queues.find(header.topic, header.queue_id)
        topic = self._topics.get(header.topic)
        queue_nums = 0 if topic is None else max(topic.read_queue_nums, topic.write_queue_nums)
        if queue is None and not 0 <= header.queue_id < queue_nums:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
        if queue is None or not queue.min_offset <= header.index < queue.max_offset:
            return None
        answer = ConsumeQueueAnswer(
            max_queue_index=queue.max_offset,
            min_queue_index=queue.min_offset,
            queue_data=_items(queue, header.index, min(header.count, UNITS_MAX)),
        )
        if header.consumer_group is not None:
            self._add_filter(answer, header.consumer_group, header.topic)
        return answer

    def _add_filter(self, answer: ConsumeQueueAnswer, group: str, topic: str) -> None:
        answer.subscription_data = self._clients.subscription(group, topic)
        if answer.subscription_data is None:
            answer.filter_data = f"{group}@{topic} is not online!"
        else:
            found = self._consumer_filters.get(topic, group)
            answer.filter_data = "null" if found is None else pretty(msgspec.to_builtins(found.data)).decode()


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
