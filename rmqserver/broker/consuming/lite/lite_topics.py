"""Assembles lite topics: their operations, the task that removes idle lite topics (``LiteLifecycleManager``, 5.5.0),
and the task that looks for messages for wildcard groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio

from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.names import lite_queue_name
from rmqserver.broker.consuming.lite.infos import expiration_minutes, is_lite
from rmqserver.broker.stats import store_time_ms

if TYPE_CHECKING:
    from rmqserver.broker.consuming.lite.ready import Ready
    from rmqserver.broker.consuming.lite.subscriptions import LiteSubscriptions
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.queues.round import Arrival

_MS_PER_MINUTE = 60_000


class Lite:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, offsets: ConsumerOffsets, ready: Ready,
        subscriptions: LiteSubscriptions,
    ):  # fmt: skip
        self.subscriptions = subscriptions
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._ready = ready
        self._ready.on_unsearched = self._search_soon
        self._search_wanted = trio.Event()

    def peer_gone(self, peer: Peer) -> None:
        if self.subscriptions.by_client:
            self.subscriptions.peer_gone(peer)

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Called when messages have become visible. Not needed while no client subscribes."""
        self._ready.arrived(arrivals)

    async def run(self) -> None:
        """Runs the tasks until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._remove_forever)
            nursery.start_soon(self._search_forever)

    def _search_soon(self) -> None:
        self._search_wanted.set()

    async def _search_forever(self) -> None:
        while True:
            await self._search_wanted.wait()
            self._search_wanted = trio.Event()
            while self._ready.unsearched:
                (topic, group), _ = self._ready.unsearched.popitem()
                for queue in self._ready.behind(topic, group):
                    if queue is not None:
                        self._ready.offer(queue, group)
                    await trio.lowlevel.checkpoint()

    async def _remove_forever(self) -> None:
        while True:
            await trio.sleep(self._config.lite_ttl_check_interval_ms / 1000)
            self.remove_expired()

    def remove_expired(self) -> None:
        """Removes lite topics whose last message is older than their parent allows, and in which no group is behind."""
        for queue in list(self._expired()):
            self.subscriptions.forget_queue(queue)
            self._store.delete_topic(queue)
            self._offsets.remove_topic(queue)

    def _expired(self) -> Iterator[str]:
        now_ms, names = self._store.clock_ms(), self._store.queues.names()
        for topic in self._topics.all().values():
            minutes = expiration_minutes(topic)
            if not is_lite(topic) or minutes <= 0:
                continue
            oldest_ms = now_ms - max(minutes * _MS_PER_MINUTE, self._config.min_lite_ttl_ms)
            prefix = lite_queue_name(topic.topic_name, "")
            for queue in names:
                if queue.startswith(prefix) and self._is_idle(queue, oldest_ms):
                    yield queue

    def _is_idle(self, queue: str, oldest_ms: int) -> bool:
        store, offsets = self._store, self._offsets
        max_offset = store.max_offset(queue, LIGHT_QUEUE_ID)
        if max_offset and store_time_ms(store, queue, LIGHT_QUEUE_ID, max_offset - 1) >= oldest_ms:
            return False
        return all(
            (offsets.committed(group, queue, LIGHT_QUEUE_ID) or 0) >= max_offset for group in offsets.groups_of(queue)
        )
