"""Rebalancing: determines our queues of the subscribed topics again when the group or a route changes, and periodically
(``RebalanceImpl`` and ``RebalanceService``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection

import trio

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError

log = logging.getLogger(__name__)

REBALANCE_INTERVAL_S = 20.0
REBALANCE_RETRY_S = 0.5
"""The pause after a failed rebalance; doubles up to REBALANCE_INTERVAL_S while rebalances fail."""

Ours = Callable[[str, tuple[MessageQueue, ...]], Awaitable[set[MessageQueue] | None]]
"""``await ours(topic, readable)``: those of a topic's readable queues that are ours. None if that is not known; nothing
changes then."""

Take = Callable[[str, set[MessageQueue]], Awaitable[bool]]
"""``await take(topic, queues)``: makes exactly these queues of the topic ours. Returns whether all could be taken."""


class Rebalance:
    """``run`` runs in a task until it is cancelled."""

    def __init__(self, client: ClientInstance, topics: Collection[str], ours: Ours, take: Take):
        """``topics`` belong to the caller, who may change them."""
        self._client = client
        self._topics = topics
        self._ours = ours
        self._take = take
        self._wanted = trio.Event()

    def soon(self) -> None:
        """Rebalances soon, because something has changed."""
        self._wanted.set()

    async def run(self) -> None:
        retry_s = REBALANCE_RETRY_S
        while True:
            self._wanted = trio.Event()
            is_complete = all([await self._rebalance(topic) for topic in list(self._topics)])
            retry_s = REBALANCE_RETRY_S if is_complete else min(retry_s * 2, REBALANCE_INTERVAL_S)
            with trio.move_on_after(REBALANCE_INTERVAL_S if is_complete else retry_s):
                await self._wanted.wait()

    async def _rebalance(self, topic: str) -> bool:
        """Whether the rebalance was done. Without a member list that includes us nothing changes."""
        try:
            readable = (await self._client.routes.queues(topic)).readable
            ours = await self._ours(topic, readable)
        except RocketMQError as error:
            log.info("rebalance put off topic=%s error=%s", topic, error)
            return False
        return ours is not None and await self._take(topic, ours)
