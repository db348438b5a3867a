"""The queues that a consumer pops from, in no order or in the order of lite topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from rmqclient.consuming.popping.queue_popper import PopRules, QueuePopper
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData

IN_FLIGHT_MAX_COUNT = 96
"""``popThresholdForQueue``."""

INVISIBLE_S = 60.0


class PoppedQueues:
    """A ``GroupSource``. ``owned`` is the consumer's table, changed only here."""

    def __init__(
        self,
        owned: dict[MessageQueue, QueuePopper],
        subscriptions: Mapping[str, SubscriptionData],
        shared: PopRules,
        popper: Callable[[MessageQueue, SubscriptionData, PopRules], QueuePopper],
        on_change: Callable[[], None],
    ):
        """``popper`` makes the popper of one queue. ``on_change`` is called when a queue was taken or given away."""
        self.deliveries = shared.deliveries
        self._owned = owned
        self._subscriptions = subscriptions
        self._shared = shared
        self._popper = popper
        self._on_change = on_change

    async def start(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        await self._shared.held.start(nursery)

    async def take(self, topic: str, ours: set[MessageQueue]) -> bool:
        for queue in [queue for queue in self._owned if queue.topic == topic and queue not in ours]:
            self._owned.pop(queue).stop()
            self._on_change()
        for queue in sorted(ours - self._owned.keys()):
            owner = self._owned[queue] = self._popper(queue, self._subscriptions[topic], self._shared)
            self._nursery.start_soon(owner.run)
            self._on_change()
        return True

    def stop(self) -> None:
        for owner in self._owned.values():
            owner.stop()

    async def close(self) -> None:
        """Messages that the listener has not begun are given back as not tried."""
        await self._shared.held.close(self.deliveries.waiting)
