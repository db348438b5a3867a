"""Timers, for tools and slaves: checkpoint, metrics, and the engine (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.tables import SwitchTimerEngineHeader
from rmqproto.wire.fastjson import dumps
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.broker.relays.timer_metrics import TimingCounts
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

_FILE_ENGINE, _ROCKSDB_ENGINE = "F", "R"


class TimerAdmin:
    def __init__(self, parts: BrokerParts, counts: TimingCounts):
        self._config = parts.config
        self._timers = parts.timer_store
        self._clock_ms = parts.clock_ms
        self._counts = counts

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_TIMER_CHECK_POINT: self.check_point,
            RequestCode.GET_TIMER_METRICS: self.metrics,
            RequestCode.SWITCH_TIMER_ENGINE: self.switch_engine,
        }

    def check_point(self, request: Request[Any], connection: Connection) -> bytes:
        self._check_enabled("The checkpoint is null")
        self._timers.due(self._clock_ms())
        return success(request, body=self._timers.checkpoint().packed())

    def metrics(self, request: Request[Any], connection: Connection) -> bytes:
        self._check_enabled("The timer message store is null")
        return success(request, body=dumps(self._counts.metrics()))

    def _check_enabled(self, remark: str) -> None:
        if not self._config.timer_wheel_enable:
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    def switch_engine(self, request: Request[SwitchTimerEngineHeader], connection: Connection) -> bytes:
        """There is only one engine, that of files."""
        engine = request.header.engine_type
        if engine not in (_FILE_ENGINE, _ROCKSDB_ENGINE):
            raise Refused(ResponseCode.INVALID_PARAMETER, "param error")
        if not self._config.timer_wheel_enable:
            raise Refused(ResponseCode.INVALID_PARAMETER, "broker timerWheelEnable is false")
        if engine == _ROCKSDB_ENGINE:
            text = "timerRocksDBEnable must be configured true when broker start"
            raise Refused(ResponseCode.INVALID_PARAMETER, text)
        return success(request, remark="switch timer engine success")
