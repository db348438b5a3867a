"""Counts by topic, each kept in a file of ``config/``: how many transactions of each topic are open
(``TransactionMetrics``, 5.5.0), and for timers how many messages wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from rmqproto.bodies.base import Body, DataVersion
from rmqproto.bodies.statistics import TimerMetric
from rmqserver.broker.tables.config_table import from_file

if TYPE_CHECKING:
    from rmqserver.store.disk.config_files import ConfigFiles


class _Content(Protocol):
    data_version: DataVersion | None


C = TypeVar("C", bound=_Content)


class TopicCounts(Generic[C]):
    """``content`` is the file's, and ``by_topic`` its member with the counts."""

    def __init__(
        self, files: ConfigFiles, clock_ms: Callable[[], int], file_name: str, content: C,
        by_topic: Callable[[C], dict[str, TimerMetric]],
    ):  # fmt: skip
        self.content = content
        self._version = content.data_version = DataVersion(timestamp=clock_ms())
        self._files = files
        self._clock_ms = clock_ms
        self._file_name = file_name
        self._member = by_topic
        self.by_topic = by_topic(content)
        self._is_changed = False

    def load(self) -> None:
        """Raises StorageError if the file is not ours."""
        self.content = from_file(self._files.load(self._file_name), type(self.content), self._file_name)
        self.by_topic = self._member(self.content)
        self._version = self.content.data_version = self.content.data_version or self._version

    def add(self, topic: str, count: int, changes: int = 1) -> None:
        """Adds to a topic's count. The version goes up by ``changes``."""
        metric = self.by_topic.get(topic)
        if metric is None:
            metric = self.by_topic[topic] = TimerMetric()
        metric.count += count
        self._version.counter += changes
        self._version.timestamp = metric.time_stamp = self._clock_ms()
        self._is_changed = True

    def count(self, topic: str) -> int:
        return metric.count if (metric := self.by_topic.get(topic)) is not None else 0

    def save(self) -> None:
        """Saves if anything changed since the last time."""
        if self._is_changed:
            self._is_changed = False
            self._files.save(self._file_name, msgspec.to_builtins(self.content))


class _OpenTransactions(Body, kw_only=True):
    data_version: DataVersion | None = None
    transaction_count: dict[str, TimerMetric] = {}


class TransactionMetrics(TopicCounts[_OpenTransactions]):
    def __init__(self, files: ConfigFiles, clock_ms: Callable[[], int]):
        content = _OpenTransactions()
        super().__init__(files, clock_ms, "transactionMetrics", content, lambda found: found.transaction_count)
