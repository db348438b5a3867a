"""Which queues of the subscribed topics are ours: asked again when the group or a route changes, and now and then
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
"""After a rebalance that could not be done; doubles up to REBALANCE_INTERVAL_S while that goes on."""

Ours = Callable[[str, tuple[MessageQueue, ...]], Awaitable[set[MessageQueue] | None]]
"""``await ours(topic, readable)``: those of a topic's readable queues that are ours. None if that is not known, and
everything stays as it is."""

Take = Callable[[str, set[MessageQueue]], Awaitable[bool]]
"""``await take(topic, queues)``: these queues of the topic are ours, and no others. Whether all of it could be done."""


class Rebalance:
    """``run`` runs in a task until it is cancelled."""

    def __init__(self, client: ClientInstance, topics: Collection[str], ours: Ours, take: Take):
        """``topics`` belong to the caller, and may change."""
        self._client = client
        self._topics = topics
        self._ours = ours
        self._take = take
        self._wanted = trio.Event()

    def soon(self) -> None:
        """Something has changed."""
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
        """Whether it could be done: without a member list that holds us, everything stays as it is."""
        try:
            readable = (await self._client.routes.queues(topic)).readable
            ours = await self._ours(topic, readable)
        except RocketMQError as error:
            log.info("rebalance put off topic=%s error=%s", topic, error)
            return False
        return ours is not None and await self._take(topic, ours)
