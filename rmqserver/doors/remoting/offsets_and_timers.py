"""The requests about offsets and timers: of consumers about their own (``ConsumerManageProcessor``), of tools and
slaves (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.codes import RequestCode as R
from rmqproto.headers.client_calls import ResetOffsetHeader
from rmqproto.headers.consuming import OffsetAnswer, TimestampAnswer, UpdateConsumerOffsetHeader
from rmqserver.broker.clients.clients import language_name
from rmqserver.doors.remoting.handlers import done, value_of, what_it_reads, with_body
from rmqserver.doors.remoting.held_answers import answer_read, with_queue
from rmqserver.operation import UNSET_REMARK
from rmqserver.remoting.answer import Request, success

if TYPE_CHECKING:
    from rmqserver.broker.admin.offset_admin import OffsetAdmin
    from rmqserver.broker.admin.timer_admin import TimerAdmin
    from rmqserver.broker.consuming.offset_requests import CommittedOffsets, QueueEnds
    from rmqserver.broker.consuming.reset_offset import ResetOffset
    from rmqserver.broker.reads import Reads
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


class ConsumerOffsetRequests:
    def __init__(self, offsets: CommittedOffsets, reads: Reads):
        self._offsets = offsets
        self._reads = reads

    def handlers(self) -> dict[int, Handler]:
        query = what_it_reads(
            self._reads, lambda request, _: partial(self._offsets.query, request.header), _with_offset
        )
        return {R.QUERY_CONSUMER_OFFSET: query, R.UPDATE_CONSUMER_OFFSET: self._commit}

    def _commit(self, request: Request[UpdateConsumerOffsetHeader], connection: Connection) -> bytes:
        if not self._offsets.commit(request.header):
            return success(request, remark="Offset has been previously reset")
        return success(request)


class QueueEndRequests:
    def __init__(self, ends: QueueEnds, resets: ResetOffset, reads: Reads):
        self._ends = ends
        self._resets = resets
        self._reads = reads

    def handlers(self) -> dict[int, Handler]:
        ends, reads = self._ends, self._reads
        return {
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
            R.INVOKE_BROKER_TO_RESET_OFFSET: self._reset,
        }

    def _reset(self, request: Request[ResetOffsetHeader], connection: Connection) -> None:
        header, remark = request.header, None if self._resets.moves_itself else UNSET_REMARK

        def then(wanted: dict[int, int]) -> bytes:
            return with_body(request, self._resets.reset(header, wanted, language_name(request.language)), remark)

        answer_read(self._reads, request, connection, self._resets.wanted(header), then)


def _with_offset(request: Request[Any], offset: int, remark: str | None = None) -> bytes:
    return success(request, OffsetAnswer(offset=offset), remark=remark)


def offset_handlers(offsets: OffsetAdmin) -> dict[int, Handler]:
    return {
        R.QUERY_TOPIC_CONSUME_BY_WHO: value_of(lambda request, _: offsets.groups_of_topic(request.header.topic)),
        R.QUERY_TOPICS_BY_CONSUMER: value_of(lambda request, peer: offsets.topics_of_group(request.header.group, peer)),
        R.QUERY_SUBSCRIPTION_BY_CONSUMER: value_of(
            lambda request, _: offsets.subscription(request.header.group, request.header.topic)
        ),
        R.CLONE_GROUP_OFFSET: done(lambda request, _: offsets.clone(request.header)),
        R.QUERY_CORRECTION_OFFSET: value_of(lambda request, _: offsets.correction(request.header)),
        R.GET_ALL_CONSUMER_OFFSET: value_of(lambda request, _: offsets.all_offsets()),
        R.GET_ALL_DELAY_OFFSET: value_of(lambda request, _: offsets.delay_offsets()),
    }


def timer_handlers(timers: TimerAdmin) -> dict[int, Handler]:
    return {
        R.GET_TIMER_CHECK_POINT: lambda request, _: success(request, body=timers.check_point()),
        R.GET_TIMER_METRICS: value_of(lambda request, _: timers.metrics()),
        R.SWITCH_TIMER_ENGINE: done(
            lambda request, _: timers.check_engine(request.header.engine_type), "switch timer engine success"
        ),
    }
