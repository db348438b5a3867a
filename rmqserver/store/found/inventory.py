"""A store opened read-only, to tell what it holds: the ends of its queues, how far groups have come, what waits."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rmqproto.errors import StorageError
from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqserver.store.found.found_tables import FoundTables
from rmqserver.store.found.survey import Survey
from rmqserver.store.message_store import MessageStore

_LOGGER = "rmqserver.store"


@dataclass(frozen=True, slots=True)
class FoundQueue:
    """A consume queue. ``problem``: why it cannot be read; its numbers are then 0."""

    topic: str
    queue_id: int
    min_offset: int = 0
    max_offset: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None
    problem: str | None = None

    @property
    def is_light(self) -> bool:
        return self.topic.startswith(LIGHT_QUEUE_PREFIX)

    @property
    def count(self) -> int:
        """Messages that can be read."""
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """How far a group has come in a queue. A queue that is gone ends at 0."""

    group: str
    topic: str
    queue_id: int
    offset: int
    max_offset: int
    lag_count: int


class Inventory:
    """An open store. If its queues cannot be read, ``store`` is None and ``problem`` says why. ``said`` is a growing
    list of what the store logs about damage."""

    def __init__(self, found: Survey, said: list[str]):
        self.found = found
        self.said = said
        self.tables = FoundTables(found.paths.config, found.disk)
        self.problem: str | None = None
        self.store: MessageStore | None = MessageStore(found.root, found.options, found.disk, read_only=True)
        try:
            self.store.open()
        except StorageError as error:
            self.store, self.problem = None, str(error)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def queues(self) -> list[FoundQueue]:
        """By name and number, light queues behind the others."""
        if self.store is None:
            return []
        queues = self.store.queues
        found = [_queue(self.store, name, queue_id) for name in queues.names() for queue_id in queues.ids_of(name)]
        return sorted(found, key=lambda one: (one.is_light, one.topic, one.queue_id))

    def offsets(self, queues: Sequence[FoundQueue]) -> list[FoundOffset]:
        """The committed offsets of all groups, sorted. ``queues`` are those of the store."""
        ends = {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in queues}
        found = []
        for key, offsets in self.tables.offsets().items():
            topic, _, group = key.partition("@")
            for queue_id, offset in offsets.items():
                first, end = ends.get((topic, queue_id), (0, 0))
                found.append(FoundOffset(group, topic, queue_id, offset, end, max(0, end - max(offset, first))))
        return sorted(found, key=lambda one: (one.group, one.topic, one.queue_id))


class _Listener(logging.Handler):
    def __init__(self, said: list[str]):
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())


@contextlib.contextmanager
def listening(said: list[str]) -> Iterator[None]:
    """Redirects the store's log messages to ``said``."""
    logger, listener = logging.getLogger(_LOGGER), _Listener(said)
    was_propagated = logger.propagate
    logger.addHandler(listener)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.propagate = was_propagated


@contextlib.contextmanager
def inventory(found: Survey) -> Iterator[Inventory]:
    """Opens the store, read-only, for the length of the context."""
    said: list[str] = []
    with listening(said):
        opened = Inventory(found, said)
        try:
            yield opened
        finally:
            opened.close()


def _queue(store: MessageStore, topic: str, queue_id: int) -> FoundQueue:
    try:
        queue = store.queues.find(topic, queue_id)
    except StorageError as error:
        return FoundQueue(topic, queue_id, problem=str(error))
    if queue is None:
        return FoundQueue(topic, queue_id, problem="it is gone")
    first, last = queue.unit(queue.min_offset), queue.unit(queue.max_offset - 1)
    return FoundQueue(
        queue.topic,
        queue.queue_id,
        queue.min_offset,
        queue.max_offset,
        store_time(store, first[0]) if first is not None else None,
        store_time(store, last[0]) if last is not None else None,
    )


def store_time(store: MessageStore, log_offset: int) -> int | None:
    """When the record there was stored; None if the log does not have it."""
    return store.store_time(log_offset) if store.log.has(log_offset, 1) else None
