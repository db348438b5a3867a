"""The requests of tools and slaves about committed offsets and timers (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.codes import RequestCode as R
from rmqproto.headers.statistics import CloneGroupOffsetHeader, CorrectionOffsetHeader
from rmqproto.headers.tables import GroupHeader, SubscriptionQueryHeader, SwitchTimerEngineHeader, TopicHeader
from rmqproto.wire.fastjson import dumps
from rmqserver.remoting.answer import Request, success

if TYPE_CHECKING:
    from rmqserver.broker.admin.offset_admin import OffsetAdmin
    from rmqserver.broker.admin.timer_admin import TimerAdmin
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


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
