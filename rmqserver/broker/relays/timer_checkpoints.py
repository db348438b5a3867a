"""When ``timercheck`` and ``timermetrics`` are saved: at intervals. A checkpoint that says that a message was delivered
is saved only once the message's copy is on the device."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import trio

if TYPE_CHECKING:
    from rmqserver.broker.relays.timer_metrics import TimingCounts
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)


class _Prepared(NamedTuple):
    """``work`` may run when the log is kept up to ``log_offset``."""

    log_offset: int
    work: Callable[[], None]


class TimerCheckpoints:
    """Saves checkpoints. After a failed write the state of the files is unknown: no checkpoint follows, and the next
    broker goes on from the last one."""

    def __init__(self, config: BrokerConfig, store: MessageStore, timer_store: TimerStore, counts: TimingCounts):
        self._config = config
        self._store = store
        self._clock_ms = store.clock_ms
        self._timers = timer_store
        self._counts = counts
        self._prepared: _Prepared | None = None
        self._next_s = -math.inf
        self._has_failed = False

    @property
    def _has_work(self) -> bool:
        return not self._has_failed and (self._prepared is not None or self._timers.is_changed)

    @property
    def pause_s(self) -> float:
        """Seconds until the next save; infinite if there is nothing to save."""
        return max(self._next_s - trio.current_time(), 0) if self._has_work else math.inf

    async def save_if_time(self) -> None:
        """Saves what was prepared earlier if a flush has covered it since; prepares what has changed."""
        if not self._has_work or trio.current_time() < self._next_s:
            return
        self._next_s = trio.current_time() + self._config.timer_flush_interval_ms / 1000
        self._counts.save()
        try:
            if self._prepared is not None and self._store.kept_offset >= self._prepared.log_offset:
                work, self._prepared = self._prepared.work, None
                await trio.to_thread.run_sync(work)
            if self._prepared is None and self._timers.is_changed:
                self._prepare()
        except OSError as error:
            self._failed(error)

    def _prepare(self) -> None:
        work = self._timers.prepare_checkpoint(self._clock_ms())
        self._prepared = _Prepared(self._store.written_offset, work)

    def _failed(self, error: OSError) -> None:
        self._has_failed = True
        log.error("event=timers-not-saved reason=%r", str(error))

    def close(self) -> bool:
        """Saves a checkpoint when all of the log is kept. Returns False if the files are not as they should be."""
        if self._has_failed or not self._timers.is_used:
            return not self._has_failed
        try:
            self._timers.stop()
            self._prepare()
            assert self._prepared is not None
            self._prepared.work()
        except OSError as error:
            self._failed(error)
        return not self._has_failed
