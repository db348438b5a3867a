"""The requests that find messages and offsets, and how far consumers lag (``QueryMessageProcessor``,
``ConsumerManageProcessor``, ``AdminBrokerProcessor``, 5.5.0). What they read of the device is read off the loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.statistics import ConsumeQueueAnswer
from rmqproto.codes import RequestCode as R
from rmqproto.headers.consuming import (
    OffsetAnswer,
    QueryMessageAnswer,
    QueryMessageHeader,
    ResetOffsetHeader,
    TimestampAnswer,
    UpdateConsumerOffsetHeader,
)
from rmqproto.headers.tables import QueryConsumeQueueHeader
from rmqserver.broker.clients.clients import language_name
from rmqserver.doors.remoting.handlers import (
    answer_read,
    done,
    put_off,
    value_of,
    what_it_makes,
    what_it_reads,
    with_body,
    with_queue,
)
from rmqserver.operation import UNSET_REMARK
from rmqserver.remoting.answer import Request, success

if TYPE_CHECKING:
    from rmqserver.broker.assembly import BrokerAssembly
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler
    from rmqserver.store.results import QueryResult


def query_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    query, stats, reads, ends = parts.message_query, parts.consume_stats, parts.reads, parts.queue_ends
    return {
        R.QUERY_MESSAGE: partial(_by_key, parts),
        R.VIEW_MESSAGE_BY_ID: what_it_reads(
            reads,
            lambda request, _: partial(query.by_log_offset, request.header.offset),
            lambda request, record: success(request, body=record),
        ),
        R.QUERY_CONSUME_QUEUE: what_it_reads(
            reads, lambda request, _: partial(query.consume_queue, request.header), _consume_queue
        ),
        R.GET_CONSUME_STATS: what_it_reads(reads, lambda request, _: stats.consume_stats(request.header)),
        R.GET_BROKER_CONSUME_STATS: what_it_reads(
            reads, lambda request, peer: stats.broker_consume_stats(request.header, peer)
        ),
        R.QUERY_CONSUME_TIME_SPAN: what_it_reads(
            reads, lambda request, _: stats.time_span(request.header.topic, request.header.group)
        ),
        R.QUERY_CONSUMER_OFFSET: what_it_reads(
            reads, lambda request, _: partial(parts.committed_offsets.query, request.header), _with_offset
        ),
        R.UPDATE_CONSUMER_OFFSET: partial(_commit, parts),
        R.SEARCH_OFFSET_BY_TIMESTAMP: what_it_reads(
            reads, lambda request, _: partial(ends.offset_by_time, request.header), _with_offset
        ),
        R.GET_MAX_OFFSET: with_queue(
            reads, ends.open, lambda request, _: _with_offset(request, ends.max_offset(request.header))
        ),
        R.GET_MIN_OFFSET: with_queue(
            reads, ends.open, lambda request, _: _with_offset(request, ends.min_offset(request.header), "")
        ),
        R.GET_EARLIEST_MSG_STORETIME: what_it_reads(
            reads,
            lambda request, _: partial(ends.earliest_time, request.header),
            lambda request, found: success(request, TimestampAnswer(timestamp=found)),
        ),
        R.INVOKE_BROKER_TO_RESET_OFFSET: partial(_reset, parts),
    }


def table_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    """The requests about the tables of offsets and timers."""
    offsets, timers = parts.offset_admin, parts.timer_admin
    return {
        R.QUERY_TOPIC_CONSUME_BY_WHO: value_of(lambda request, _: offsets.groups_of_topic(request.header.topic)),
        R.QUERY_TOPICS_BY_CONSUMER: value_of(lambda request, peer: offsets.topics_of_group(request.header.group, peer)),
        R.QUERY_SUBSCRIPTION_BY_CONSUMER: value_of(
            lambda request, _: offsets.subscription(request.header.group, request.header.topic)
        ),
        R.CLONE_GROUP_OFFSET: done(lambda request, _: offsets.clone(request.header)),
        R.QUERY_CORRECTION_OFFSET: value_of(lambda request, _: offsets.correction(request.header)),
        R.GET_ALL_CONSUMER_OFFSET: what_it_makes(parts.reads, lambda request, _: offsets.all_offsets()),
        R.GET_ALL_DELAY_OFFSET: value_of(lambda request, _: offsets.delay_offsets()),
        R.GET_TIMER_CHECK_POINT: lambda request, _: success(request, body=timers.check_point()),
        R.GET_TIMER_METRICS: value_of(lambda request, _: timers.metrics()),
        R.SWITCH_TIMER_ENGINE: done(
            lambda request, _: timers.check_engine(request.header.engine_type), "switch timer engine success"
        ),
    }


def _by_key(parts: BrokerAssembly, request: Request[QueryMessageHeader], connection: Connection) -> None:
    """Soon after kill -9 the answer waits until the index has caught up with the log."""
    if not parts.store.has_whole_index:
        put_off(parts.store, request, connection, partial(_by_key, parts, request, connection))
        return

    def then(found: QueryResult) -> bytes:
        header = QueryMessageAnswer(
            index_last_update_timestamp=found.last_update_timestamp_ms,
            index_last_update_phyoffset=found.last_update_log_offset,
        )
        return success(request, header, b"".join(found.records))

    answer_read(parts.reads, request, connection, partial(parts.message_query.by_key, request.header), then)


def _consume_queue(request: Request[QueryConsumeQueueHeader], found: ConsumeQueueAnswer | None) -> bytes:
    """Where there is no such unit, the answer is success without a body, as in Apache's broker."""
    if found is None:
        header = request.header
        return success(request, remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
    return with_body(request, found, UNSET_REMARK)


def _commit(parts: BrokerAssembly, request: Request[UpdateConsumerOffsetHeader], connection: Connection) -> bytes:
    if not parts.committed_offsets.commit(request.header):
        return success(request, remark="Offset has been previously reset")
    return success(request)


def _reset(parts: BrokerAssembly, request: Request[ResetOffsetHeader], connection: Connection) -> None:
    header, remark = request.header, None if parts.reset_offset.moves_itself else UNSET_REMARK

    def then(wanted: dict[int, int]) -> bytes:
        return with_body(request, parts.reset_offset.reset(header, wanted, language_name(request.language)), remark)

    answer_read(parts.reads, request, connection, parts.reset_offset.wanted(header), then)


def _with_offset(request: Request[Any], offset: int, remark: str | None = None) -> bytes:
    return success(request, OffsetAnswer(offset=offset), remark=remark)
