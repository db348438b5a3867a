"""How many messages wait for their time, by destination topic (``TimerMetrics``, 5.5.0); kept in
``config/timermetrics``."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.statistics import TimerMetric, TimerMetrics
from rmqproto.java.java_hash import java_hash
from rmqserver.broker.tables.config_table import from_file

if TYPE_CHECKING:
    from rmqserver.store.disk.config_files import ConfigFiles
    from rmqserver.store.timers.log import Unit

FILE_NAME = "timermetrics"
RATE_SPAN_S = 10


class TimingCounts:
    def __init__(self, files: ConfigFiles, clock_ms: Callable[[], int]):
        self._files = files
        self._clock_ms = clock_ms
        self._metrics = TimerMetrics(data_version=DataVersion(timestamp=clock_ms()))
        self._is_changed = False
        self._delivered: deque[tuple[int, int]] = deque(maxlen=RATE_SPAN_S + 1)
        """Seconds, and the number of messages delivered in each; seconds without any are left out."""

    def load(self) -> None:
        """Raises StorageError if the file is not ours."""
        loaded = from_file(self._files.load(FILE_NAME), TimerMetrics, FILE_NAME)
        loaded.data_version = loaded.data_version or self._metrics.data_version
        self._metrics = loaded

    def add(self, topic: str, count: int, changes: int = 1) -> None:
        """Adds to a topic's count. The version goes up by ``changes``."""
        now_ms = self._clock_ms()
        metric = self._metrics.timing_count.get(topic)
        if metric is None:
            metric = self._metrics.timing_count[topic] = TimerMetric()
        metric.count += count
        metric.time_stamp = now_ms
        version = self._metrics.data_version
        assert version is not None
        version.counter += changes
        version.timestamp = now_ms
        self._is_changed = True

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """Sets the counts after a recount; a topic that is not named has none."""
        for topic in {*self._metrics.timing_count, *counts}:
            if (difference := counts.get(topic, 0) - self.count(topic)) != 0:
                self.add(topic, difference)

    def topics(self) -> list[str]:
        return list(self._metrics.timing_count)

    def delivered(self, count: int) -> None:
        second = self._clock_ms() // 1000
        if self._delivered and self._delivered[-1][0] == second:
            count += self._delivered.pop()[1]
        self._delivered.append((second, count))

    def delivered_tps(self) -> float:
        """Messages delivered per second, over the last seconds."""
        now = self._clock_ms() // 1000
        return sum(count for second, count in self._delivered if now - RATE_SPAN_S <= second < now) / RATE_SPAN_S

    def count(self, topic: str) -> int:
        return metric.count if (metric := self._metrics.timing_count.get(topic)) is not None else 0

    def metrics(self) -> TimerMetrics:
        return self._metrics

    def save(self) -> None:
        """Saves the counts if something has changed."""
        if self._is_changed:
            self._is_changed = False
            self._files.save(FILE_NAME, msgspec.to_builtins(self._metrics))


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
