"""A store directory as a source of messages: its queues and their ends. It is opened read-only: no lock is taken, no
file is changed, and a broker may be using it."""

from __future__ import annotations

import os
from types import TracebackType

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumerOffsetsBody
from rmqproto.codes import PERM_INHERIT
from rmqproto.errors import NotFoundError, ProtocolError, StorageError
from rmqproto.message.record import decode_records_untrusted
from rmqproto.names import is_system_topic
from rmqproto.wire import fastjson
from rmqreplay.ledger.letters import Letter, letter_of
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import open_read_only
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.queues.time_search import offset_for_time
from rmqserver.store.recovery.directory import StoreDirectory
from rmqserver.store.results import Boundary

UNKNOWN_BROKER = "store"


class StoreView:
    """One store directory, read-only. StorageError if it is not a store, or cannot be read. Use it with ``with``."""

    def __init__(self, root: str, broker_name: str | None = None):
        self.root = os.path.abspath(root)
        if not os.path.isdir(f"{self.root}/commitlog"):
            raise StorageError(f"{root} holds no commitlog directory", hint="name the store's root directory")
        self.broker_name = broker_name or _broker_name_of(self.root) or UNKNOWN_BROKER
        # Before the store is opened: a broker that uses it may move it on.
        checkpoint = Checkpoint.read(OsDisk(), StoreDirectory(self.root, OsDisk()).checkpoint)
        self.flushed_record_offset = checkpoint.queues_log_offset
        self.store = open_read_only(self.root, StoreOptions(index_enabled=False))
        self._groups: dict[str, dict[int, int]] | None = None

    def __enter__(self) -> StoreView:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.store.close()

    @property
    def log_start(self) -> int:
        """The log offset of the first record."""
        return self.store.log.segments.min_offset

    @property
    def log_end(self) -> int:
        """The log offset behind the last whole record."""
        return self.store.log.confirmed_offset

    def topics(self) -> list[str]:
        return sorted(self.store.queues.names())

    def queues(self, topic: str) -> list[MessageQueue]:
        found = self.store.queues.of_topic(topic)
        return [MessageQueue(topic, self.broker_name, queue.queue_id) for queue in found]

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        found = self.consume_queue(queue)
        first = max(found.min_offset, found.first_at_or_after(self.store.log.min_offset))
        return first, found.max_offset

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return offset_for_time(self.store.log, self.consume_queue(queue), timestamp_ms, Boundary.LOWER)

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        if self._groups is None:
            self._groups = _committed_offsets(self.root)
        return self._groups.get(f"{queue.topic}@{group}", {}).get(queue.queue_id)

    def consume_queue(self, queue: MessageQueue) -> ConsumeQueue:
        found = self.store.queues.find(queue.topic, queue.queue_id)
        if found is None or queue.broker_name != self.broker_name:
            raise NotFoundError(f"{self.root} has no queue {queue.queue_id} of {queue.topic} on {queue.broker_name}")
        return found

    def letter(self, queue: MessageQueue, queue_offset: int) -> Letter | None:
        """The message at a queue offset; None if there is none, or it is damaged."""
        unit = self.consume_queue(queue).unit(queue_offset)
        if unit is None or unit[0] < self.log_start:
            return None
        try:
            found = decode_records_untrusted(self.store.log.read(unit[0], unit[1]))
        except ProtocolError:
            return None
        return letter_of(found[0]) if found and found[0].queue_offset == queue_offset else None


def _broker_name_of(root: str) -> str | None:
    """The broker's name, which a store shows only indirectly: ``TopicConfigManager`` creates a topic of that name, with
    one queue and the inherit bit (5.5.0)."""
    try:
        with open(f"{root}/config/topics.json", "rb") as file:
            table = fastjson.loads_untrusted(file.read(), dict).get("topicConfigTable", {})
        names = [
            name
            for name, config in table.items()
            if config["perm"] & PERM_INHERIT
            and config["readQueueNums"] == config["writeQueueNums"] == 1
            and not is_system_topic(name)
        ]
    except (OSError, ProtocolError, KeyError, TypeError, AttributeError):
        return None
    return names[0] if len(names) == 1 else None


def _committed_offsets(root: str) -> dict[str, dict[int, int]]:
    try:
        with open(f"{root}/config/consumerOffset.json", "rb") as file:
            return fastjson.loads_untrusted(file.read(), ConsumerOffsetsBody).offset_table
    except OSError:
        return {}
