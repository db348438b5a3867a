"""The queues that a consumer pops from, in no order or in the order of lite topics. From each queue, or from all queues
of a broker at once, it pops one time after the other while there is room for messages
(``DefaultMQPushConsumerImpl.popMessage``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import TaskGroup

from rmqclient.consuming.deliveries import ConcurrentDeliveries, Delivery
from rmqclient.consuming.popping.held_messages import HeldMessages
from rmqclient.consuming.popping.lite_deliveries import LiteDeliveries
from rmqclient.consuming.popping.lite_topics import LiteTopics
from rmqclient.consuming.popping.pop import POP_BATCH_COUNT, PoppedMessage, PopTerms, pop, pop_lite
from rmqclient.consuming.puller import FailurePause
from rmqclient.consuming.rates import Rates
from rmqclient.consuming.subscribing import tag_filter
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.errors import RocketMQError

log = logging.getLogger(__name__)

POLL_MS = 15_000
"""How long a broker may hold a pop while it has no messages."""

ANSWER_TIMEOUT_S = 15.0
"""Time for the answer beyond that."""

SOON_S = 1.0
"""A broker that answers an empty pop sooner cannot hold it: too many pops wait, or its clock differs from ours."""

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

    async def start(self, nursery: TaskGroup) -> None:
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


@dataclass(frozen=True, slots=True)
class PopRules:
    """The part that the queues of one consumer share. ``init_mode`` is that of the request."""

    group: str
    client: ClientInstance
    held: HeldMessages
    deliveries: ConcurrentDeliveries | LiteDeliveries
    rates: Rates
    init_mode: int
    max_in_flight: int


class QueuePopper:
    """``run`` runs in a task from the moment the queue is ours until ``stop``."""

    def __init__(self, queue: MessageQueue, subscription: SubscriptionData, shared: PopRules):
        self.queue = queue
        self._subscription = subscription
        self._shared = shared
        self._filter = tag_filter(subscription)
        self._pause = FailurePause(shared.client)
        self._in_flight = 0
        self._room = anyio.Event()
        self._is_stopped = False
        self._last_pop_s = 0.0

    async def run(self) -> None:
        """Runs until ``stop``, and returns with the answer of the pop under way: no other consumer gets its
        messages."""
        while not self._is_stopped:
            room = self._shared.max_in_flight - self._in_flight
            if room <= 0:
                self._room = anyio.Event()
                await self._room.wait()
            else:
                await self._pop(min(room, POP_BATCH_COUNT))

    def stop(self) -> None:
        """The queue is not ours any more. Messages popped from it still are."""
        self._is_stopped = True
        self._room.set()

    def info(self, now_s: float, now_ms: int) -> dict[str, Any]:
        """For ``consumerStatus`` (``PopProcessQueueInfo``). ``now_s`` is ``anyio.current_time()``, ``now_ms`` the same
        moment since the epoch."""
        return {
            "droped": self._is_stopped,
            "lastPopTimestamp": now_ms - int((now_s - self._last_pop_s) * 1000) if self._last_pop_s else 0,
            "waitAckCount": self._in_flight,
        }

    async def _pop(self, max_count: int) -> None:
        started_s = self._last_pop_s = anyio.current_time()
        try:
            messages = await self._ask(
                PopTerms(
                    max_count=max_count,
                    invisible_ms=self._shared.held.invisible_ms,
                    poll_ms=POLL_MS,
                    answer_timeout_s=ANSWER_TIMEOUT_S,
                )
            )
        except RocketMQError as error:
            await self._pause.after(error, "pop", self.queue)
            return
        now_s = anyio.current_time()
        if messages:
            self._shared.rates.pulled(self.queue.topic, now_s, len(messages), (now_s - started_s) * 1000)
            await self._take(messages, now_s)
        elif now_s - started_s < SOON_S:
            await self._pause.sleep()
            return
        self._pause.reset()

    async def _ask(self, terms: PopTerms) -> list[PoppedMessage]:
        """The messages of one pop. RocketMQError."""
        shared = self._shared
        return await pop(shared.client, shared.group, self.queue, self._subscription, terms, shared.init_mode)

    async def _take(self, messages: list[PoppedMessage], now_s: float) -> None:
        held = self._shared.held
        if held.is_closing:
            await held.give_back(messages)
            return
        for message in messages:
            self._in_flight += 1
            one = held.hold(message, now_s, self._gone)
            if self._filter.tags is None or self._filter.matches(message.tags):
                # ``_gone`` hears of the message's end already.
                self._shared.deliveries.offer(Delivery(message, one, lambda: None))
            else:  # its tag only has the hash of a wanted one
                one.settle(message.stored)

    def _gone(self) -> None:
        self._in_flight -= 1
        self._room.set()


class LitePopper(QueuePopper):
    def __init__(self, broker: MessageQueue, subscription: SubscriptionData, shared: PopRules, lite_topics: LiteTopics):
        """``broker`` stands for all queues of the parent topic on one broker."""
        super().__init__(broker, subscription, shared)
        self._lite_topics = lite_topics

    async def _ask(self, terms: PopTerms) -> list[PoppedMessage]:
        try:
            await self._lite_topics.be_known(self.queue.broker_name)
            return await pop_lite(self._shared.client, self._shared.group, self.queue, terms)
        except RocketMQError:
            self._lite_topics.forgotten(self.queue.broker_name)
            raise
