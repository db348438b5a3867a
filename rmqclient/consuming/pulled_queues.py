"""The queues that a consumer pulls from: it takes them over, gives them away, and commits their offsets
(``RebalancePushImpl``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import trio

from rmqclient.consuming.deliveries import Deliveries
from rmqclient.consuming.pulled_queue import DeliveredQueue, Pulling
from rmqclient.consuming.queue_lease import QueueLeases
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.errors import RocketMQError

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S = 5.0


class PulledQueues:
    """A ``GroupSource``. ``owned`` is the consumer's table, changed only here."""

    def __init__(
        self,
        owned: dict[MessageQueue, DeliveredQueue],
        subscriptions: Mapping[str, SubscriptionData],
        shared: Pulling,
        deliveries: Deliveries,
        leases: QueueLeases | None,
        on_change: Callable[[], None],
    ):
        """``leases`` is the queues'. ``on_change`` is called when a queue was taken or given away, and when the start
        of a queue is known."""
        self.deliveries = deliveries
        self._owned = owned
        self._subscriptions = subscriptions
        self._shared = shared
        self._leases = leases
        self._on_change = on_change
        self._leaving: set[MessageQueue] = set()
        self._commit_scope = trio.CancelScope()

    async def start(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        nursery.start_soon(self._commit_forever)
        if self._leases is not None:
            nursery.start_soon(self._leases.renew_forever)

    async def take(self, topic: str, ours: set[MessageQueue]) -> bool:
        for queue in [queue for queue in self._owned if queue.topic == topic and queue not in ours]:
            await self._give_away(queue)
        fresh = ours - self._owned.keys() - self._leaving
        if self._leases is not None and fresh:
            fresh = await self._leases.lock(fresh)
        for queue in sorted(fresh):
            self._take_over(queue)
        return ours <= self._owned.keys()

    def stop(self) -> None:
        self._commit_scope.cancel()
        for owner in self._owned.values():
            owner.stop_pulling()

    async def close(self) -> None:
        await self._commit_all()
        if self._leases is not None:
            await self._leases.unlock_all()

    async def _commit_forever(self) -> None:
        with self._commit_scope:
            while True:
                await trio.sleep(COMMIT_INTERVAL_S)
                await self._commit_all()

    async def _commit_all(self) -> None:
        """Commits all offsets. A failure is logged and tried again next time."""
        async with trio.open_nursery() as nursery:
            for owner in self._owned.values():
                nursery.start_soon(owner.commit)
        try:
            await self._shared.offsets.flush()
        except RocketMQError as error:
            log.warning("offsets not stored group=%s error=%s", self._shared.group, error)

    def _take_over(self, queue: MessageQueue) -> None:
        subscription = self._subscriptions[queue.topic]
        owner = DeliveredQueue(queue, subscription, self._shared, self.deliveries, self._leases, self._on_change)
        self._owned[queue] = owner
        self._nursery.start_soon(owner.run)
        self._on_change()
        log.info("queue taken over group=%s queue=%s", self._shared.group, queue)

    async def _give_away(self, queue: MessageQueue) -> None:
        owner, group = self._owned.pop(queue), self._shared.group
        self._on_change()
        log.info("queue given away group=%s queue=%s committed_offset=%s", group, queue, owner.committed_offset)
        if self._leases is None:
            owner.drop()
            await owner.commit()
        else:
            owner.stop_pulling()
            self._leaving.add(queue)
            self._nursery.start_soon(self._give_back_lock, queue, owner, self._leases)

    async def _give_back_lock(self, queue: MessageQueue, owner: DeliveredQueue, leases: QueueLeases) -> None:
        """Unlocks the queue once the listener is done with its current message. Other queues do not wait for that."""
        await self.deliveries.leave(queue)
        owner.drop()
        await owner.commit()
        await leases.unlock([queue])
        self._leaving.discard(queue)
