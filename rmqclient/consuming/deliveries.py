"""Delivery of pulled messages of all queues to the listener, several at once, by a number of workers. Messages that
were not consumed are sent back (``ConsumeMessageConcurrentlyService``, 5.5.0). Here is also one call of the
listener: its time limit, its result, statistics and traces."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup, TaskStatus

from rmqclient.consuming.rates import Rates
from rmqclient.lifetime import cancelled_alone
from rmqclient.listener import LATER, SUCCESS, BatchListener, ConsumeStatus, Listener, as_async
from rmqclient.message import ReceivedMessage
from rmqclient.parking import ParkingLot
from rmqclient.tracing import Traces
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.message.record import StoredMessage
from rmqproto.trace import CONSUMED_WELL, FAILED, RAISED, TIMED_OUT

log = logging.getLogger(__name__)

AGAIN_AFTER_S = 5.0
"""The pause before the listener gets a message again that could neither be consumed nor sent back."""

CHECKPOINT_EVERY = 16
"""Messages that a worker takes in a row before it lets other tasks run, if the listener never waits."""


class Unsettled(Protocol):
    """The place where a message is settled, such as the process queue of a pulled message."""

    @property
    def is_dropped(self) -> bool:
        """Whether nobody waits for the message any longer because another consumer gets it."""
        ...

    def settle(self, message: StoredMessage) -> None:
        """The message was consumed or sent back. Settling it twice counts once."""
        ...


class Delivery(NamedTuple):
    """A message on its way to the listener. ``on_settled`` is called once it is settled."""

    message: ReceivedMessage
    unsettled: Unsettled
    on_settled: Callable[[], None]


class Deliveries(Protocol):
    """``offer`` never waits: the puller limits the messages under way for each queue."""

    def offer(self, delivery: Delivery) -> None: ...

    async def run(self, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Runs until it is cancelled."""
        ...

    async def drain(self) -> None:
        """Takes no more messages, and returns once those that the listener has are settled."""
        ...

    async def leave(self, queue: MessageQueue) -> None:
        """Takes no more messages of a queue that is given away. Returns once its next owner may begin."""
        ...


SendBack = Callable[[ReceivedMessage, ConsumeStatus], Awaitable[None]]
"""Makes the broker deliver a message again at the time that the listener's status says. RocketMQError if that fails."""


W = TypeVar("W")


class Workers(ABC, Generic[W]):
    """As many tasks as messages may be with the listener at once. That number may change while they run. Each takes
    what ``_ready`` has first."""

    def __init__(self, call: ListenerCall):
        self._call = call
        self._ready: deque[W] = deque()
        self._idle = ParkingLot()
        self._count = self._running = 0
        self._is_draining = False
        self._drained = anyio.Event()
        self._nursery: TaskGroup | None = None
        call.on_concurrency = self._adjust

    async def run(self, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as self._nursery:
            self._adjust()
            task_status.started()

    async def drain(self) -> None:
        self._is_draining = True
        if self._running:
            await self._drained.wait()

    @abstractmethod
    async def _take(self, nursery: TaskGroup) -> None:
        """Passes what is ready first to the listener, and settles it."""

    def _is_ready(self, work: W) -> None:
        self._ready.append(work)
        self._idle.unpark()

    def _adjust(self) -> None:
        if self._nursery is None:
            return
        while self._count < self._call.concurrency:
            self._nursery.start_soon(self._work, self._nursery)
            self._count += 1
        self._idle.unpark_all()

    async def _work(self, nursery: TaskGroup) -> None:
        taken = 0
        while self._count <= self._call.concurrency:
            if self._is_draining or not self._ready:
                await self._idle.park()
                continue
            self._running += 1
            try:
                await self._take(nursery)
            finally:
                self._running -= 1
                if self._is_draining and not self._running:
                    self._drained.set()
            taken += 1
            if taken % CHECKPOINT_EVERY == 0:
                await anyio.lowlevel.checkpoint()
        self._count -= 1  # there was a worker too many


class ConcurrentDeliveries(Workers[Delivery]):
    """Deliveries in no order. A message that fails is sent back, and comes again."""

    def __init__(self, call: ListenerCall, send_back: SendBack):
        super().__init__(call)
        self._send_back = send_back

    def offer(self, delivery: Delivery) -> None:
        self._is_ready(delivery)

    @property
    def waiting(self) -> list[ReceivedMessage]:
        """The messages that the listener has not begun."""
        return [delivery.message for delivery in self._ready if not delivery.unsettled.is_dropped]

    async def leave(self, queue: MessageQueue) -> None:
        """Returns at once: the next owner gets the messages that the listener still has again, and settles them."""

    async def _take(self, nursery: TaskGroup) -> None:
        if batch := self._take_batch():
            status = await self._call.guarded(*(delivery.message for delivery in batch))
            for delivery in batch:
                await self._settle(delivery, status, nursery)

    def _take_batch(self) -> list[Delivery]:
        """The next messages, all of one queue, that the listener gets at once."""
        batch: list[Delivery] = []
        while self._ready and len(batch) < self._call.batch_max_count:
            if batch and self._ready[0].message.queue != batch[0].message.queue:
                break
            delivery = self._ready.popleft()
            if not delivery.unsettled.is_dropped:
                batch.append(delivery)
        return batch

    async def _settle(self, delivery: Delivery, status: ConsumeStatus, nursery: TaskGroup) -> None:
        if delivery.unsettled.is_dropped:
            return  # the queue's next owner will get it
        message = delivery.message
        if not status.is_success:
            try:
                await self._send_back(message, status)
            except RocketMQError as error:
                log.warning("send back failed id=%s topic=%s error=%s", message.message_id, message.topic, error)
                nursery.start_soon(self._offer_again, delivery)
                return
        delivery.unsettled.settle(message.stored)
        delivery.on_settled()

    async def _offer_again(self, delivery: Delivery) -> None:
        await anyio.sleep(AGAIN_AFTER_S)
        self.offer(delivery)


# --- the listener ----------------------------------------------------------------------------------------------------


class ListenerCall:
    """``await call(message)``, or ``await call(*messages)`` if the listener takes lists (``batch_max_count``)."""

    def __init__(
        self,
        listener: Listener | BatchListener,
        concurrency: int,
        timeout_s: float,
        rates: Rates,
        traces: Traces | None = None,
        batch_max_count: int | None = None,
    ):
        """``concurrency``: calls at once. ``batch_max_count``: the most messages of a list; None for a listener of
        single messages. UsageError for a ``concurrency`` below 1."""
        self.on_concurrency: Callable[[], None] = lambda: None
        """Called when ``concurrency`` has changed."""

        self._threads = anyio.CapacityLimiter(1)
        self.concurrency = concurrency
        self._listener = as_async(listener, self._threads)
        self._timeout_s = timeout_s
        self._rates = rates
        self._traces = traces
        self._takes_lists = batch_max_count is not None
        self.batch_max_count = batch_max_count or 1

    @property
    def concurrency(self) -> int:
        """Whoever delivers calls the listener no more often at once."""
        return self._concurrency

    @concurrency.setter
    def concurrency(self, count: int) -> None:
        if count < 1:
            raise UsageError(f"concurrency is {count}, and must be 1 or more")
        self._concurrency = self._threads.total_tokens = count
        self.on_concurrency()

    async def __call__(self, *messages: ReceivedMessage) -> ConsumeStatus:
        """The listener's status; LATER if its time is over. Raises what the listener raises."""
        started_s = anyio.current_time()
        status, outcome = LATER, RAISED
        traced = [(each, self._traces.delivered(each)) for each in messages] if self._traces is not None else []
        try:
            with anyio.move_on_after(self._timeout_s) as scope, cancelled_alone():
                status = await self._listener(list(messages) if self._takes_lists else messages[0]) or SUCCESS
                outcome = CONSUMED_WELL if status.is_success else FAILED
            if scope.cancelled_caught:
                outcome = TIMED_OUT
                log.warning("listener timed out id=%s topic=%s", messages[0].message_id, messages[0].topic)
        finally:
            now_s = anyio.current_time()
            spent_ms = (now_s - started_s) * 1000
            self._rates.consumed(messages, now_s, spent_ms, is_success=status.is_success)
            for message, request_id in traced:
                assert self._traces is not None
                self._traces.consumed(message, request_id, spent_ms, outcome)
        return status

    async def guarded(self, *messages: ReceivedMessage) -> ConsumeStatus:
        """As the call, but an exception of the listener is logged and counts as LATER."""
        try:
            return await self(*messages)
        except Exception:  # the edge of the application's code: the message comes again
            log.exception("listener failed id=%s topic=%s", messages[0].message_id, messages[0].topic)
            return LATER
