"""How many transactions of each topic are open (``TransactionMetrics``, 5.5.0); kept in
``config/transactionMetrics``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.base import Body, DataVersion
from rmqproto.java.java_numbers import Int64
from rmqserver.broker.tables.config_table import from_file

if TYPE_CHECKING:
    from rmqserver.store.disk.config_files import ConfigFiles

FILE_NAME = "transactionMetrics"


class _Count(Body, kw_only=True):
    """``time_stamp`` is when it last changed."""

    count: Int64 = 0
    time_stamp: Int64 = 0


class _Content(Body, kw_only=True):
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    transaction_count: dict[str, _Count] = {}


class TransactionMetrics:
    def __init__(self, files: ConfigFiles, clock_ms: Callable[[], int]):
        self._files = files
        self._clock_ms = clock_ms
        self._content = _Content(data_version=DataVersion(timestamp=clock_ms()))
        self._is_changed = False

    def load(self) -> None:
        """Raises StorageError if the file is not ours."""
        document = self._files.load(FILE_NAME)
        if document:
            self._content = from_file(document, _Content, FILE_NAME)

    def add(self, topic: str, count: int) -> None:
        found = self._content.transaction_count.get(topic)
        if found is None:
            found = self._content.transaction_count[topic] = _Count()
        found.count += count
        version = self._content.data_version
        version.counter += 1
        version.timestamp = found.time_stamp = self._clock_ms()
        self._is_changed = True

    def open_count(self, topic: str) -> int:
        found = self._content.transaction_count.get(topic)
        return found.count if found is not None else 0

    def save(self) -> None:
        """Saves if anything changed since the last time."""
        if self._is_changed:
            self._is_changed = False
            self._files.save(FILE_NAME, msgspec.to_builtins(self._content))
