"""Where queues begin and end, and when messages were stored: SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30),
GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32) (``AdminBrokerProcessor``, 5.5.0). For static topics the queue is a
logical one, and so is the offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode
from rmqproto.headers.consuming import MaxOffsetHeader, OffsetAnswer, QueueHeader, SearchOffsetHeader, TimestampAnswer
from rmqproto.names import lite_queue_name
from rmqproto.queue_mapping import OFFSET_MAX, item_at, logical_offset
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.tables.queue_mappings import is_physical
from rmqserver.remoting.answer import Request, success
from rmqserver.store.results import Boundary

if TYPE_CHECKING:
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

_MIN_NOT_HERE = f"%s-%d is not leader in broker %s, request code {int(RequestCode.GET_MIN_OFFSET)}"


class QueueEnds:
    def __init__(self, parts: BrokerParts):
        self._store = parts.store
        self._mappings = parts.mappings
        self._static_topics = parts.mappings.all()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.offset_by_time,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_time,
        }

    def offset_by_time(self, request: Request[SearchOffsetHeader], connection: Connection) -> bytes:
        header = request.header
        boundary = Boundary.UPPER if (header.boundary_type or "").upper() == "UPPER" else Boundary.LOWER
        if self._is_static(header):
            return success(request, OffsetAnswer(offset=self._logical_offset_by_time(header, boundary)))
        topic = lite_queue_name(header.topic, header.lite_topic) if header.lite_topic else header.topic
        found = self._store.offset_for_time(topic, header.queue_id, header.timestamp, boundary)
        return success(request, OffsetAnswer(offset=found))

    def _logical_offset_by_time(self, header: SearchOffsetHeader, boundary: Boundary) -> int:
        """The offset in the oldest mapping item that has a message at or after the time."""
        topic, found = header.topic, -1
        for item in self._mappings.items(topic, header.queue_id):
            if item.logic_offset < 0:
                continue
            here = self._mappings.here(topic, item)
            queue_offset = self._store.offset_for_time(topic, here.queue_id, header.timestamp, boundary)
            found = logical_offset(item, queue_offset)
            if queue_offset > 0:
                break
        return found

    def max_offset(self, request: Request[MaxOffsetHeader], connection: Connection) -> bytes:
        header = request.header
        if self._is_static(header):
            item = item_at(self._mappings.items(header.topic, header.queue_id), OFFSET_MAX)
            end = self._end(header, self._mappings.here(header.topic, item).queue_id)
            return success(request, OffsetAnswer(offset=logical_offset(item, end)))
        return success(request, OffsetAnswer(offset=self._end(header, header.queue_id)))

    def _end(self, header: MaxOffsetHeader, queue_id: int) -> int:
        queue = self._store.queue(header.topic, queue_id)
        if queue is None:
            return 0
        return queue.max_offset if header.is_committed else queue.next_offset

    def min_offset(self, request: Request[QueueHeader], connection: Connection) -> bytes:
        header = request.header
        if self._is_static(header):
            item = item_at(self._mappings.items(header.topic, header.queue_id, _MIN_NOT_HERE), 0)
            queue_id = self._mappings.here(header.topic, item).queue_id
            found = logical_offset(item, self._store.min_offset(header.topic, queue_id))
        else:
            found = self._store.min_offset(header.topic, header.queue_id)
        return success(request, OffsetAnswer(offset=found), remark="")

    def earliest_time(self, request: Request[QueueHeader], connection: Connection) -> bytes:
        header, queue_id = request.header, request.header.queue_id
        if self._is_static(header):
            item = item_at(self._mappings.items(header.topic, queue_id), 0)
            queue_id = self._mappings.here(header.topic, item).queue_id
        return success(request, TimestampAnswer(timestamp=self._store.earliest_store_time(header.topic, queue_id)))

    def _is_static(self, header: QueueHeader | SearchOffsetHeader) -> bool:
        return header.topic in self._static_topics and not is_physical(header.logical)
