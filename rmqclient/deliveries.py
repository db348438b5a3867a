"""From the pulled messages of all queues to the listener: a fixed number of workers, and what becomes of a message that
was not consumed (``ConsumeMessageConcurrentlyService``, 5.5.0)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from rmqclient.listener import LATER, SUCCESS, ConsumeStatus, Listener, as_async
from rmqclient.message import ReceivedMessage
from rmqclient.process_queue import ProcessQueue
from rmqclient.rates import Rates
from rmqproto.errors import RocketMQError

log = logging.getLogger(__name__)

AGAIN_AFTER_S = 5.0
"""When a message that could neither be consumed nor sent back is offered to the listener again."""

CHECKPOINT_EVERY = 16
"""Messages a worker takes in a row before it lets other tasks run, where the listener never waits."""


class Delivery(NamedTuple):
    """A message on its way to the listener. ``on_settled`` is called when its process queue has let it go."""

    message: ReceivedMessage
    process_queue: ProcessQueue
    on_settled: Callable[[], None]


SendBack = Callable[[ReceivedMessage, int], Awaitable[None]]
"""Has the broker deliver a message again by a delay level. RocketMQError where that fails."""


class Deliveries:
    """``offer`` never waits: how much may be under way is bounded queue by queue, by whoever pulls."""

    def __init__(
        self, listener: Listener, concurrency: int, consume_timeout_s: float, send_back: SendBack, rates: Rates
    ):
        self._listener = as_async(listener, concurrency)
        self._concurrency = concurrency
        self._consume_timeout_s = consume_timeout_s
        self._send_back = send_back
        self._rates = rates
        self._ready: deque[Delivery] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._running = 0
        self._is_draining = False
        self._drained = trio.Event()

    def offer(self, delivery: Delivery) -> None:
        self._ready.append(delivery)
        self._idle.unpark()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(self._concurrency):
                nursery.start_soon(self._work, nursery)

    async def drain(self) -> None:
        """Takes no more messages, and returns when those that the listener has are settled."""
        self._is_draining = True
        if self._running:
            await self._drained.wait()

    async def consume(self, message: ReceivedMessage) -> ConsumeStatus:
        """What the listener says of one message. LATER where its time is over; raises what the listener raises."""
        started_s = trio.current_time()
        status = LATER
        try:
            with trio.move_on_after(self._consume_timeout_s) as scope:
                status = await self._listener(message) or SUCCESS
            if scope.cancelled_caught:
                log.warning("listener timed out id=%s topic=%s", message.message_id, message.topic)
        finally:
            now_s = trio.current_time()
            self._rates.consumed(message.topic, now_s, (now_s - started_s) * 1000, is_success=status.is_success)
        return status

    async def _work(self, nursery: trio.Nursery) -> None:
        taken = 0
        while True:
            if self._is_draining or not self._ready:
                await self._idle.park()
                continue
            delivery = self._ready.popleft()
            if delivery.process_queue.is_dropped:
                continue
            self._running += 1
            try:
                await self._deliver(delivery, nursery)
            finally:
                self._running -= 1
                if self._is_draining and not self._running:
                    self._drained.set()
            taken += 1
            if taken % CHECKPOINT_EVERY == 0:
                await trio.lowlevel.checkpoint()

    async def _deliver(self, delivery: Delivery, nursery: trio.Nursery) -> None:
        message = delivery.message
        try:
            status = await self.consume(message)
        except Exception:  # the edge of the application's code: what it cannot consume comes again
            log.exception("listener failed id=%s topic=%s", message.message_id, message.topic)
            status = LATER
        if delivery.process_queue.is_dropped:
            return  # the queue's next owner will get it
        if not status.is_success:
            try:
                await self._send_back(message, status.delay_level)
            except RocketMQError as error:
                log.warning("send back failed id=%s topic=%s error=%s", message.message_id, message.topic, error)
                nursery.start_soon(self._offer_again, delivery)
                return
        delivery.process_queue.settle(message.stored)
        delivery.on_settled()

    async def _offer_again(self, delivery: Delivery) -> None:
        await trio.sleep(AGAIN_AFTER_S)
        self.offer(delivery)
