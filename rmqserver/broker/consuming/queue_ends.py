"""Where queues begin and end, and when messages were stored: SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30),
GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32) (``AdminBrokerProcessor``, 5.5.0). For static topics the queue is a
logical one, and so is the offset."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import MaxOffsetHeader, OffsetAnswer, QueueHeader, SearchOffsetHeader, TimestampAnswer
from rmqproto.names import lite_queue_name
from rmqproto.queue_mapping import OFFSET_MAX, has_ended, item_at, logical_offset
from rmqserver.broker.consuming.former_brokers import physical
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.tables.queue_mappings import is_physical
from rmqserver.remoting.answer import Request, success
from rmqserver.store.results import Boundary

if TYPE_CHECKING:
    from rmqproto.bodies.static_topics import LogicQueueMappingItem
    from rmqproto.wire.command import Command
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

_MIN_NOT_HERE = f"%s-%d is not leader in broker %s, request code {int(RequestCode.GET_MIN_OFFSET)}"


class QueueEnds:
    def __init__(self, parts: BrokerParts):
        self._store = parts.store
        self._reads = parts.reads
        self._mappings = parts.mappings
        self._former = parts.former_brokers
        self._static_topics = parts.mappings.all()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.offset_by_time,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_time,
        }

    def offset_by_time(self, request: Request[SearchOffsetHeader], connection: Connection) -> bytes | None:
        header = request.header
        if self._is_static(header):
            items = self._mappings.items(header.topic, header.queue_id)
            decided = [item for item in items if item.logic_offset >= 0]
            return self._logical_offset_by_time(request, connection, decided, -1)
        topic = lite_queue_name(header.topic, header.lite_topic) if header.lite_topic else header.topic
        search = partial(self._store.offset_for_time, topic, header.queue_id, header.timestamp, _boundary(header))
        return self._reads.read(request, connection, search, lambda found: success(request, OffsetAnswer(offset=found)))

    def _logical_offset_by_time(
        self,
        request: Request[SearchOffsetHeader],
        connection: Connection,
        items: list[LogicQueueMappingItem],
        found: int,
    ) -> bytes | None:
        """Answers with the offset in the oldest of these mapping items that has a message at or after the time;
        ``found`` if they are none. None if another broker is asked first."""
        header = request.header
        for number, item in enumerate(items):
            if not self._mappings.is_here(item):
                render = partial(self._found_there, request, connection, item, items[number + 1 :], found)
                self._former.ask(request, connection, item, physical(header, item), render)
                return None
            queue_offset = self._store.offset_for_time(header.topic, item.queue_id, header.timestamp, _boundary(header))
            found = logical_offset(item, queue_offset)
            if queue_offset > 0:
                break
        return success(request, OffsetAnswer(offset=found))

    def _found_there(
        self,
        request: Request[SearchOffsetHeader],
        connection: Connection,
        item: LogicQueueMappingItem,
        later: list[LogicQueueMappingItem],
        found: int,
        answer: Command,
    ) -> bytes | None:
        """Goes on with the later mapping items if the time is after the messages of ``item``, on another broker."""
        queue_offset = from_ext(answer.ext, OffsetAnswer).offset
        if queue_offset < 0 or (has_ended(item) and queue_offset >= item.end_offset):
            return self._logical_offset_by_time(request, connection, later, found)
        return success(request, OffsetAnswer(offset=logical_offset(item, queue_offset)))

    def max_offset(self, request: Request[MaxOffsetHeader], connection: Connection) -> bytes | None:
        header = request.header
        if self._is_static(header):
            item = item_at(self._mappings.items(header.topic, header.queue_id), OFFSET_MAX)
            if not self._mappings.is_here(item):
                self._ask_offset(request, connection, item)
                return None
            return success(request, OffsetAnswer(offset=logical_offset(item, self._end(header, item.queue_id))))
        end = partial(self._end, header, header.queue_id)
        return self._reads.read(request, connection, end, lambda found: success(request, OffsetAnswer(offset=found)))

    def _end(self, header: MaxOffsetHeader, queue_id: int) -> int:
        queue = self._store.queue(header.topic, queue_id)
        if queue is None:
            return 0
        return queue.max_offset if header.is_committed else queue.next_offset

    def min_offset(self, request: Request[QueueHeader], connection: Connection) -> bytes | None:
        header = request.header
        if self._is_static(header):
            item = item_at(self._mappings.items(header.topic, header.queue_id, _MIN_NOT_HERE), 0)
            if not self._mappings.is_here(item):
                self._ask_offset(request, connection, item)
                return None
            found = logical_offset(item, self._store.min_offset(header.topic, item.queue_id))
            return success(request, OffsetAnswer(offset=found), remark="")
        begin = partial(self._store.min_offset, header.topic, header.queue_id)
        return self._reads.read(
            request, connection, begin, lambda found: success(request, OffsetAnswer(offset=found), remark="")
        )

    def _ask_offset(
        self,
        request: Request[MaxOffsetHeader] | Request[QueueHeader],
        connection: Connection,
        item: LogicQueueMappingItem,
    ) -> None:
        def render(answer: Command) -> bytes:
            queue_offset = from_ext(answer.ext, OffsetAnswer).offset
            return success(request, OffsetAnswer(offset=logical_offset(item, queue_offset)))

        self._former.ask(request, connection, item, physical(request.header, item), render)

    def earliest_time(self, request: Request[QueueHeader], connection: Connection) -> bytes | None:
        header, queue_id = request.header, request.header.queue_id
        if self._is_static(header):
            item = item_at(self._mappings.items(header.topic, queue_id), 0)
            if not self._mappings.is_here(item):
                self._former.ask(
                    request, connection, item, physical(header, item),
                    lambda answer: success(request, from_ext(answer.ext, TimestampAnswer)),
                )  # fmt: skip
                return None
            queue_id = item.queue_id
        read = partial(self._store.earliest_store_time, header.topic, queue_id)
        return self._reads.read(
            request, connection, read, lambda found: success(request, TimestampAnswer(timestamp=found))
        )

    def _is_static(self, header: QueueHeader | SearchOffsetHeader) -> bool:
        return header.topic in self._static_topics and not is_physical(header.logical)


def _boundary(header: SearchOffsetHeader) -> Boundary:
    return Boundary.UPPER if (header.boundary_type or "").upper() == "UPPER" else Boundary.LOWER
