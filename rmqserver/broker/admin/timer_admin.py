"""Timers, for tools and slaves: checkpoint, metrics, and the engine (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.codes import ResponseCode
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqproto.bodies.statistics import TimerMetrics
    from rmqserver.broker.relays.timer_metrics import TimingCounts
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.timers.timer_store import TimerStore

_FILE_ENGINE, _ROCKSDB_ENGINE = "F", "R"


class TimerAdmin:
    def __init__(
        self, config: BrokerConfig, timer_store: TimerStore, clock_ms: Callable[[], int], counts: TimingCounts
    ):
        self._config = config
        self._timers = timer_store
        self._clock_ms = clock_ms
        self._counts = counts

    def check_point(self) -> bytes:
        """As it is in its file."""
        self._check_enabled("The checkpoint is null")
        self._timers.due(self._clock_ms())
        return self._timers.checkpoint().packed()

    def metrics(self) -> TimerMetrics:
        self._check_enabled("The timer message store is null")
        return self._counts.metrics()

    def _check_enabled(self, remark: str) -> None:
        if not self._config.timer_wheel_enable:
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    def check_engine(self, engine: str | None) -> None:
        """There is only one engine, that of files: Refused for any other."""
        if engine not in (_FILE_ENGINE, _ROCKSDB_ENGINE):
            raise Refused(ResponseCode.INVALID_PARAMETER, "param error")
        if not self._config.timer_wheel_enable:
            raise Refused(ResponseCode.INVALID_PARAMETER, "broker timerWheelEnable is false")
        if engine == _ROCKSDB_ENGINE:
            text = "timerRocksDBEnable must be configured true when broker start"
            raise Refused(ResponseCode.INVALID_PARAMETER, text)
