"""Where queues begin and end, and when messages were stored: SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30),
GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32) (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode
from rmqproto.headers.consuming import MaxOffsetHeader, OffsetAnswer, QueueHeader, SearchOffsetHeader, TimestampAnswer
from rmqproto.names import lite_queue_name
from rmqserver.broker.parts import BrokerParts
from rmqserver.remoting.answer import Request, success
from rmqserver.store.results import Boundary

if TYPE_CHECKING:
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


class QueueEnds:
    def __init__(self, parts: BrokerParts):
        self._store = parts.store
        self._reads = parts.reads

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.offset_by_time,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_time,
        }

    def offset_by_time(self, request: Request[SearchOffsetHeader], connection: Connection) -> bytes | None:
        header = request.header
        topic = lite_queue_name(header.topic, header.lite_topic) if header.lite_topic else header.topic
        search = partial(self._store.offset_for_time, topic, header.queue_id, header.timestamp, _boundary(header))
        return self._reads.read(request, connection, search, lambda found: success(request, OffsetAnswer(offset=found)))

    def max_offset(self, request: Request[MaxOffsetHeader], connection: Connection) -> bytes | None:
        end = partial(self._end, request.header)
        return self._reads.read(request, connection, end, lambda found: success(request, OffsetAnswer(offset=found)))

    def _end(self, header: MaxOffsetHeader) -> int:
        queue = self._store.queue(header.topic, header.queue_id)
        if queue is None:
            return 0
        return queue.max_offset if header.is_committed else queue.next_offset

    def min_offset(self, request: Request[QueueHeader], connection: Connection) -> bytes | None:
        begin = partial(self._store.min_offset, request.header.topic, request.header.queue_id)
        return self._reads.read(
            request, connection, begin, lambda found: success(request, OffsetAnswer(offset=found), remark="")
        )

    def earliest_time(self, request: Request[QueueHeader], connection: Connection) -> bytes | None:
        header = request.header
        read = partial(self._store.earliest_store_time, header.topic, header.queue_id)
        return self._reads.read(
            request, connection, read, lambda found: success(request, TimestampAnswer(timestamp=found))
        )


def _boundary(header: SearchOffsetHeader) -> Boundary:
    return Boundary.UPPER if (header.boundary_type or "").upper() == "UPPER" else Boundary.LOWER
