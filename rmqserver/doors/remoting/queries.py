"""The requests that find messages, and how far consumers lag (``QueryMessageProcessor``, ``AdminBrokerProcessor``,
5.5.0). All of them read, and wait for the device off the loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.statistics import ConsumeQueueAnswer
from rmqproto.codes import RequestCode as R
from rmqproto.headers.client_calls import TopicGroupHeader
from rmqproto.headers.consuming import QueryMessageAnswer, QueryMessageHeader, ViewMessageHeader
from rmqproto.headers.statistics import BrokerConsumeStatsHeader, ConsumeStatsHeader, QueryConsumeQueueHeader
from rmqproto.wire.fastjson import dumps
from rmqserver.doors.remoting.held_answers import answer_read, put_off
from rmqserver.operation import UNSET_REMARK
from rmqserver.remoting.answer import Request, success

if TYPE_CHECKING:
    from rmqserver.broker.admin.consume_stats import ConsumeStatsAdmin
    from rmqserver.broker.admin.message_query import MessageQuery
    from rmqserver.broker.reads import Reads
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.results import QueryResult


class QueryRequests:
    def __init__(self, query: MessageQuery, stats: ConsumeStatsAdmin, store: MessageStore, reads: Reads):
        self._query = query
        self._stats = stats
        self._store = store
        self._reads = reads

    def handlers(self) -> dict[int, Handler]:
        return {
            R.QUERY_MESSAGE: self.by_key,
            R.VIEW_MESSAGE_BY_ID: self._by_log_offset,
            R.QUERY_CONSUME_QUEUE: self._consume_queue,
            R.GET_CONSUME_STATS: self._consume_stats,
            R.GET_BROKER_CONSUME_STATS: self._broker_consume_stats,
            R.QUERY_CONSUME_TIME_SPAN: self._time_span,
        }

    def by_key(self, request: Request[QueryMessageHeader], connection: Connection) -> None:
        """Soon after kill -9 the answer waits until the index has caught up with the log."""
        if self._store.has_whole_index:
            self._by_key(request, connection)
        else:
            put_off(self._store, request, connection, partial(self._by_key, request, connection))

    def _by_key(self, request: Request[QueryMessageHeader], connection: Connection) -> None:
        def then(found: QueryResult) -> bytes:
            header = QueryMessageAnswer(
                index_last_update_timestamp=found.last_update_timestamp_ms,
                index_last_update_phyoffset=found.last_update_log_offset,
            )
            return success(request, header, b"".join(found.records))

        answer_read(self._reads, request, connection, partial(self._query.by_key, request.header), then)

    def _by_log_offset(self, request: Request[ViewMessageHeader], connection: Connection) -> None:
        read = partial(self._query.by_log_offset, request.header.offset)
        answer_read(self._reads, request, connection, read, lambda record: success(request, body=record))

    def _consume_queue(self, request: Request[QueryConsumeQueueHeader], connection: Connection) -> None:
        """Where there is no such unit, the answer is success without a body, as in Apache's broker."""
        header = request.header

        def then(found: ConsumeQueueAnswer | None) -> bytes:
            if found is None:
                where = f"{header.queue_id}@{header.topic}"
                return success(request, remark=f"Index {header.index} of {where} is not exist!")
            return success(request, body=dumps(found), remark=UNSET_REMARK)

        answer_read(self._reads, request, connection, partial(self._query.consume_queue, header), then)

    def _consume_stats(self, request: Request[ConsumeStatsHeader], connection: Connection) -> None:
        answer_read(
            self._reads, request, connection, self._stats.consume_stats(request.header), partial(_with_body, request)
        )

    def _broker_consume_stats(self, request: Request[BrokerConsumeStatsHeader], connection: Connection) -> None:
        read = self._stats.broker_consume_stats(request.header, connection)
        answer_read(self._reads, request, connection, read, partial(_with_body, request))

    def _time_span(self, request: Request[TopicGroupHeader], connection: Connection) -> None:
        read = self._stats.time_span(request.header.topic, request.header.group)
        answer_read(self._reads, request, connection, read, partial(_with_body, request))


def _with_body(request: Request[Any], found: object) -> bytes:
    return success(request, body=dumps(found))
