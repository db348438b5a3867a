"""Where queues begin and end, and when messages were stored (``AdminBrokerProcessor``, 5.5.0). An open queue knows its
ends without a read; the other questions read the store: a door asks them by ``Reads.read``."""

from __future__ import annotations

from rmqproto.headers.consuming import MaxOffsetHeader, QueueHeader, SearchOffsetHeader
from rmqproto.names import lite_queue_name
from rmqserver.store.message_store import MessageStore
from rmqserver.store.results import Boundary


class QueueEnds:
    def __init__(self, store: MessageStore):
        self._store = store

    def offset_by_time(self, header: SearchOffsetHeader) -> int:
        topic = lite_queue_name(header.topic, header.lite_topic) if header.lite_topic else header.topic
        boundary = Boundary.UPPER if (header.boundary_type or "").upper() == "UPPER" else Boundary.LOWER
        return self._store.offset_for_time(topic, header.queue_id, header.timestamp, boundary)

    def max_offset(self, header: MaxOffsetHeader) -> int:
        """NotCached if the queue is not open yet."""
        queue = self._store.queue(header.topic, header.queue_id, opens=False)
        if queue is None:
            return 0
        return queue.max_offset if header.is_committed else queue.next_offset

    def min_offset(self, header: QueueHeader) -> int:
        """NotCached if the queue is not open yet."""
        queue = self._store.queue(header.topic, header.queue_id, opens=False)
        return 0 if queue is None else queue.min_offset

    def open(self, header: QueueHeader) -> object:
        """Opens the queue, if it has messages."""
        return self._store.queue(header.topic, header.queue_id)

    def earliest_time(self, header: QueueHeader) -> int:
        """When the first message was stored, in ms since the epoch."""
        return self._store.earliest_store_time(header.topic, header.queue_id)
