"""Assembles lite topics: their operations, the task that removes idle lite topics (``LiteLifecycleManager``, 5.5.0),
and the task that looks for messages for wildcard groups."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.names import lite_queue_name
from rmqserver.broker.consuming.lite.infos import expiration_minutes, is_lite
from rmqserver.broker.reads import read_in_task
from rmqserver.broker.relays.relay import STOPS
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

log = logging.getLogger(__name__)

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
        self._search_wanted = trio.Event()
        ready.on_unsearched = lambda: self._search_wanted.set()

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

    async def _search_forever(self) -> None:
        while True:
            await self._search_wanted.wait()
            self._search_wanted = trio.Event()
            while self._ready.unsearched:
                (topic, group), _ = self._ready.unsearched.popitem()
                await self.search(topic, group)

    async def search(self, topic: str, group: str) -> None:
        """Offers the group all lite topics of the parent in which it is behind."""
        is_behind = partial(self._ready.is_behind, group)
        await self._for_each_that(is_behind, topic, lambda queue: self._ready.offer(queue, group))

    async def _remove_forever(self) -> None:
        while True:
            await trio.sleep(self._config.lite_ttl_check_interval_ms / 1000)
            await self.remove_expired()

    async def remove_expired(self) -> None:
        """Removes lite topics whose last message is older than their parent allows, and in which no group is behind."""
        now_ms = self._store.clock_ms()
        for topic in list(self._topics.all().values()):
            minutes = expiration_minutes(topic)
            if is_lite(topic) and minutes > 0:
                oldest_ms = now_ms - max(minutes * _MS_PER_MINUTE, self._config.min_lite_ttl_ms)
                await self._for_each_that(partial(self._is_idle, oldest_ms), topic.topic_name, self._remove)

    async def _for_each_that(self, is_so: Callable[[str], bool], topic: str, act: Callable[[str], None]) -> None:
        """Acts on those lite topics of the parent, by their light queues, of which ``is_so`` reads that they are so.
        Others have their turn after each, and no read of the device holds them up. One that cannot be read is passed
        over."""
        prefix = lite_queue_name(topic, "")
        for queue in self._store.queues.names():
            if queue.startswith(prefix):
                await trio.lowlevel.checkpoint()
                try:
                    if await read_in_task(partial(is_so, queue)):
                        act(queue)
                except STOPS as error:
                    log.warning("event=lite-topic-passed-over queue=%s reason=%r", queue, str(error))

    def _remove(self, queue: str) -> None:
        self.subscriptions.forget_queue(queue)
        self._store.delete_topic(queue)
        self._offsets.remove_topic(queue)

    def _is_idle(self, oldest_ms: int, queue: str) -> bool:
        store, offsets = self._store, self._offsets
        max_offset = store.max_offset(queue, LIGHT_QUEUE_ID)
        if max_offset and store_time_ms(store, queue, LIGHT_QUEUE_ID, max_offset - 1) >= oldest_ms:
            return False
        return all(
            (offsets.committed(group, queue, LIGHT_QUEUE_ID) or 0) >= max_offset for group in offsets.groups_of(queue)
        )
