"""The requests that find messages, and how far consumers lag (``QueryMessageProcessor``, ``AdminBrokerProcessor``,
5.5.0). All of them read, and wait for the device off the loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqproto.bodies.statistics import ConsumeQueueAnswer
from rmqproto.codes import RequestCode as R
from rmqproto.headers.consuming import QueryMessageAnswer, QueryMessageHeader
from rmqproto.headers.statistics import QueryConsumeQueueHeader
from rmqserver.doors.remoting.handlers import what_it_reads, with_body
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
        stats, reads = self._stats, self._reads
        return {
            R.QUERY_MESSAGE: self.by_key,
            R.VIEW_MESSAGE_BY_ID: what_it_reads(
                reads,
                lambda request, _: partial(self._query.by_log_offset, request.header.offset),
                lambda request, record: success(request, body=record),
            ),
            R.QUERY_CONSUME_QUEUE: what_it_reads(
                reads, lambda request, _: partial(self._query.consume_queue, request.header), _consume_queue
            ),
            R.GET_CONSUME_STATS: what_it_reads(reads, lambda request, _: stats.consume_stats(request.header)),
            R.GET_BROKER_CONSUME_STATS: what_it_reads(
                reads, lambda request, peer: stats.broker_consume_stats(request.header, peer)
            ),
            R.QUERY_CONSUME_TIME_SPAN: what_it_reads(
                reads, lambda request, _: stats.time_span(request.header.topic, request.header.group)
            ),
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


def _consume_queue(request: Request[QueryConsumeQueueHeader], found: ConsumeQueueAnswer | None) -> bytes:
    """Where there is no such unit, the answer is success without a body, as in Apache's broker."""
    if found is None:
        header = request.header
        return success(request, remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
    return with_body(request, found, UNSET_REMARK)
