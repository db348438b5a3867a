"""The requests about offsets and timers: of consumers about their own (``ConsumerManageProcessor``), of tools and
slaves (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.codes import RequestCode as R
from rmqproto.headers.client_calls import ResetOffsetHeader
from rmqproto.headers.consuming import (
    MaxOffsetHeader,
    OffsetAnswer,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    TimestampAnswer,
    UpdateConsumerOffsetHeader,
)
from rmqproto.headers.statistics import CloneGroupOffsetHeader, CorrectionOffsetHeader
from rmqproto.headers.tables import GroupHeader, SubscriptionQueryHeader, SwitchTimerEngineHeader, TopicHeader
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.clients.clients import language_name
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
        return {R.QUERY_CONSUMER_OFFSET: self._query, R.UPDATE_CONSUMER_OFFSET: self._commit}

    def _query(self, request: Request[QueryConsumerOffsetHeader], connection: Connection) -> None:
        query = partial(self._offsets.query, request.header)
        answer_read(self._reads, request, connection, query, lambda found: success(request, OffsetAnswer(offset=found)))

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
        return {
            R.SEARCH_OFFSET_BY_TIMESTAMP: self._offset_by_time,
            R.GET_MAX_OFFSET: with_queue(self._reads, self._ends.open, self._max_offset),
            R.GET_MIN_OFFSET: with_queue(self._reads, self._ends.open, self._min_offset),
            R.GET_EARLIEST_MSG_STORETIME: self._earliest_time,
            R.INVOKE_BROKER_TO_RESET_OFFSET: self._reset,
        }

    def _max_offset(self, request: Request[MaxOffsetHeader], connection: Connection) -> bytes:
        return success(request, OffsetAnswer(offset=self._ends.max_offset(request.header)))

    def _min_offset(self, request: Request[QueueHeader], connection: Connection) -> bytes:
        return success(request, OffsetAnswer(offset=self._ends.min_offset(request.header)), remark="")

    def _offset_by_time(self, request: Request[SearchOffsetHeader], connection: Connection) -> None:
        def then(found: int) -> bytes:
            return success(request, OffsetAnswer(offset=found))

        answer_read(self._reads, request, connection, partial(self._ends.offset_by_time, request.header), then)

    def _earliest_time(self, request: Request[QueueHeader], connection: Connection) -> None:
        def then(found: int) -> bytes:
            return success(request, TimestampAnswer(timestamp=found))

        answer_read(self._reads, request, connection, partial(self._ends.earliest_time, request.header), then)

    def _reset(self, request: Request[ResetOffsetHeader], connection: Connection) -> None:
        header, remark = request.header, None if self._resets.moves_itself else UNSET_REMARK

        def then(wanted: dict[int, int]) -> bytes:
            told = self._resets.reset(header, wanted, language_name(request.language))
            return success(request, body=dumps(told), remark=remark)

        answer_read(self._reads, request, connection, self._resets.wanted(header), then)


class OffsetRequests:
    def __init__(self, offsets: OffsetAdmin):
        self._offsets = offsets

    def handlers(self) -> dict[int, Handler]:
        return {
            R.QUERY_TOPIC_CONSUME_BY_WHO: self._groups_of_topic,
            R.QUERY_TOPICS_BY_CONSUMER: self._topics_of_group,
            R.QUERY_SUBSCRIPTION_BY_CONSUMER: self._subscription,
            R.CLONE_GROUP_OFFSET: self._clone,
            R.QUERY_CORRECTION_OFFSET: self._correction,
            R.GET_ALL_CONSUMER_OFFSET: lambda request, _: success(request, body=dumps(self._offsets.all_offsets())),
            R.GET_ALL_DELAY_OFFSET: lambda request, _: success(request, body=dumps(self._offsets.delay_offsets())),
        }

    def _groups_of_topic(self, request: Request[TopicHeader], connection: Connection) -> bytes:
        return success(request, body=dumps(self._offsets.groups_of_topic(request.header.topic)))

    def _topics_of_group(self, request: Request[GroupHeader], connection: Connection) -> bytes:
        return success(request, body=dumps(self._offsets.topics_of_group(request.header.group, connection)))

    def _subscription(self, request: Request[SubscriptionQueryHeader], connection: Connection) -> bytes:
        body = self._offsets.subscription(request.header.group, request.header.topic)
        return success(request, body=dumps(body))

    def _clone(self, request: Request[CloneGroupOffsetHeader], connection: Connection) -> bytes:
        self._offsets.clone(request.header)
        return success(request)

    def _correction(self, request: Request[CorrectionOffsetHeader], connection: Connection) -> bytes:
        return success(request, body=dumps(self._offsets.correction(request.header)))


class TimerRequests:
    def __init__(self, timers: TimerAdmin):
        self._timers = timers

    def handlers(self) -> dict[int, Handler]:
        return {
            R.GET_TIMER_CHECK_POINT: self._check_point,
            R.GET_TIMER_METRICS: self._metrics,
            R.SWITCH_TIMER_ENGINE: self._switch_engine,
        }

    def _check_point(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=self._timers.check_point())

    def _metrics(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=dumps(self._timers.metrics()))

    def _switch_engine(self, request: Request[SwitchTimerEngineHeader], connection: Connection) -> bytes:
        self._timers.check_engine(request.header.engine_type)
        return success(request, remark="switch timer engine success")
