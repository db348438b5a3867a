"""What is saved of timers: how many messages wait for their time, by destination topic (``TimerMetrics``, 5.5.0; kept
in ``config/timermetrics``), and the checkpoints of the wheel."""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from rmqproto.bodies.statistics import TimerMetrics
from rmqproto.java.java_hash import java_hash
from rmqserver.broker.tables.topic_counts import TopicCounts

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.timers.log import Unit
    from rmqserver.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)

RATE_SPAN_S = 10


class TimingCounts(TopicCounts[TimerMetrics]):
    """How many messages wait, by destination topic, and how many were delivered in the last seconds."""

    def __init__(self, files: ConfigFiles, clock_ms: Callable[[], int]):
        super().__init__(files, clock_ms, "timermetrics", TimerMetrics(), lambda found: found.timing_count)
        self._delivered: deque[tuple[int, int]] = deque(maxlen=RATE_SPAN_S + 1)
        """Seconds, and the number of messages delivered in each; seconds without any are left out."""

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """Sets the counts after a recount; a topic that is not named has none."""
        for topic in {*self.by_topic, *counts}:
            if (difference := counts.get(topic, 0) - self.count(topic)) != 0:
                self.add(topic, difference)

    def delivered(self, count: int) -> None:
        second = self._clock_ms() // 1000
        if self._delivered and self._delivered[-1][0] == second:
            count += self._delivered.pop()[1]
        self._delivered.append((second, count))

    def delivered_tps(self) -> float:
        """Messages delivered per second, over the last seconds."""
        now = self._clock_ms() // 1000
        return sum(count for second, count in self._delivered if now - RATE_SPAN_S <= second < now) / RATE_SPAN_S


def recount(units: Iterable[Unit], topics: Iterable[str], topic_of: Callable[[Unit], str | None]) -> dict[str, int]:
    """Counts anew what waits: a crash leaves the file up to a second old. Apache recounts at a time of day
    (``TimerMessageStore.checkAndReviseMetrics``). Returns waiting messages less recalls, by destination topic. A unit
    holds only the hash of its topic. If none or several of ``topics`` have that hash, ``topic_of`` reads the unit's
    message, or returns None if it is gone. Raises OSError."""
    named: dict[int, set[str]] = {}
    for name in topics:
        named.setdefault(java_hash(name), set()).add(name)
    sure = {topic_hash: next(iter(names)) for topic_hash, names in named.items() if len(names) == 1}
    counts: Counter[str] = Counter()
    for unit in units:
        if (topic := sure.get(unit.topic_hash) or topic_of(unit)) is not None:
            counts[topic] += -1 if unit.is_delete else 1
    return dict(counts)


class _Prepared(NamedTuple):
    """``work`` may run when the log is kept up to ``log_offset``."""

    log_offset: int
    work: Callable[[], None]


class TimerCheckpoints:
    """Saves ``timercheck`` and ``timermetrics`` at intervals. A checkpoint that says that a message was delivered is
    saved only once the message's copy is on the device. After a failed write the state of the files is unknown: no
    checkpoint follows, and the next broker goes on from the last one."""

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
            self._timers.stop(self._store.newest_store_time_ms)
            self._prepare()
            assert self._prepared is not None
            self._prepared.work()
        except OSError as error:
            self._failed(error)
        return not self._has_failed
