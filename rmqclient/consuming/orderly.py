"""Delivery of a queue's pulled messages to the listener in order, each only after the one before is settled
(``ConsumeMessageOrderlyService``, 5.5.0)."""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice

import anyio
from anyio.abc import TaskGroup, TaskStatus

from rmqclient.consuming.deliveries import Delivery, ListenerCall
from rmqclient.consuming.queue_lease import QueueLeases
from rmqclient.listener import NEVER_AGAIN, ConsumeStatus
from rmqclient.message import ReceivedMessage
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError

log = logging.getLogger(__name__)

SUSPEND_S = 1.0
"""How long a queue rests after a failed message, unless the listener says (``suspendCurrentQueueTimeMillis``)."""

SUSPEND_MIN_S, SUSPEND_MAX_S = 0.01, 30.0
"""The limits for that time; other values are moved to the nearer one."""

GiveUp = Callable[[ReceivedMessage], Awaitable[None]]
"""Makes the broker keep a message as a dead letter. RocketMQError if that fails."""


class _Line:
    """The messages of one queue. ``waiting_scope`` surrounds every wait other than that for the listener."""

    def __init__(self) -> None:
        self.deliveries: deque[Delivery] = deque()
        self.is_leaving = False
        self.waiting_scope = anyio.CancelScope()
        self.done = anyio.Event()


class OrderlyDeliveries:
    """With ``leases`` None no other member consumes these queues (broadcasting), and no lock is needed.

    A message that fails comes again after a pause in which the queue rests. After ``max_reconsume_times`` (None: no
    limit) it is given up, and the queue continues.
    """

    def __init__(
        self,
        call: ListenerCall,
        leases: QueueLeases | None,
        give_up: GiveUp,
        max_reconsume_times: int | None,
    ):
        self._call = call
        self._leases = leases
        self._give_up = give_up
        self._max_reconsume_times = max_reconsume_times
        self._places = anyio.CapacityLimiter(call.concurrency)
        """A place for each queue whose messages the listener has."""

        call.on_concurrency = self._adjust
        self._lines: dict[MessageQueue, _Line] = {}
        self._is_draining = False
        self._nursery: TaskGroup | None = None

    def offer(self, delivery: Delivery) -> None:
        """Call it after ``run`` has begun."""
        if self._is_draining:
            return
        queue = delivery.message.queue
        line = self._lines.get(queue)
        if line is None:
            assert self._nursery is not None
            line = self._lines[queue] = _Line()
            self._nursery.start_soon(self._work, queue, line)
        line.deliveries.append(delivery)

    async def run(self, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as self._nursery:
            task_status.started()
            await anyio.sleep_forever()

    def _adjust(self) -> None:
        self._places.total_tokens = self._call.concurrency

    async def drain(self) -> None:
        self._is_draining = True
        for queue in list(self._lines):
            await self.leave(queue)

    async def leave(self, queue: MessageQueue) -> None:
        """Returns once the listener is done with its current message, so that no two members have the queue."""
        line = self._lines.get(queue)
        if line is not None:
            line.is_leaving = True
            line.waiting_scope.cancel()
            await line.done.wait()

    async def _work(self, queue: MessageQueue, line: _Line) -> None:
        try:
            while line.deliveries and not line.is_leaving:
                if not await self._place(queue, line):
                    continue
                try:
                    suspend_s = await self._take_first(line.deliveries)
                finally:
                    self._places.release()
                if suspend_s and not line.is_leaving:
                    with anyio.CancelScope() as line.waiting_scope:
                        await anyio.sleep(suspend_s)
        finally:
            del self._lines[queue]
            line.done.set()

    async def _place(self, queue: MessageQueue, line: _Line) -> bool:
        """Waits until the queue is ours and the listener may take one more message. False if it cannot begin after
        all."""
        is_placed = False
        with anyio.CancelScope() as line.waiting_scope:
            if self._leases is not None:
                await self._leases.wait_held(queue)
            await self._places.acquire()
            is_placed = True
        if is_placed and (line.is_leaving or (self._leases is not None and not self._leases.is_held(queue))):
            self._places.release()
            return False
        return is_placed

    async def _take_first(self, deliveries: deque[Delivery]) -> float:
        """Passes the first message, or as many as it takes at once, to the listener. Returns the seconds for which the
        queue rests."""
        if deliveries[0].unsettled.is_dropped:
            deliveries.popleft()
            return 0.0
        batch = list(islice(deliveries, self._call.batch_max_count))
        status = await self._call.guarded(*(delivery.message for delivery in batch))
        if batch[0].unsettled.is_dropped:
            return 0.0
        kept = []
        for delivery in batch:
            deliveries.popleft()
            if status.is_success or await self._is_given_up(delivery.message, status):
                delivery.unsettled.settle(delivery.message.stored)
                delivery.on_settled()
            else:
                times = delivery.message.suspended_times + 1
                kept.append(delivery._replace(message=dataclasses.replace(delivery.message, suspended_times=times)))
        deliveries.extendleft(reversed(kept))
        if not kept:
            return 0.0
        suspend_s = SUSPEND_S if status.suspend_s is None else status.suspend_s
        return min(max(suspend_s, SUSPEND_MIN_S), SUSPEND_MAX_S)

    async def _is_given_up(self, message: ReceivedMessage, status: ConsumeStatus) -> bool:
        is_worn_out = self._max_reconsume_times is not None and message.reconsume_times >= self._max_reconsume_times
        if not is_worn_out and status.delay_level != NEVER_AGAIN:
            return False
        try:
            await self._give_up(message)
        except RocketMQError as error:
            log.warning("message not given up id=%s topic=%s error=%s", message.message_id, message.topic, error)
            return False
        return True
