"""Delivery of popped messages of lite topics to the listener: in order within a lite topic, several lite topics at
once. A message that fails goes back to the broker with those behind it in its lite topic. They come again in order, and
the listener continues with other lite topics meanwhile."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import anyio
from anyio.abc import TaskGroup

from rmqclient.consuming.deliveries import AGAIN_AFTER_S, Delivery, ListenerCall, SendBack, Workers
from rmqclient.message import ReceivedMessage
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError

log = logging.getLogger(__name__)

LetGo = Callable[[Iterable[ReceivedMessage]], Awaitable[None]]
"""Gives back messages that were not tried. It never fails: if the broker cannot be told, they come again later."""


class LiteDeliveries(Workers[MessageQueue]):
    def __init__(self, call: ListenerCall, send_back: SendBack, let_go: LetGo):
        """A worker has one lite topic at a time. A message that is not dropped when ``send_back`` returns is a dead
        letter, and its lite topic continues."""
        super().__init__(call)
        self._send_back = send_back
        self._let_go = let_go
        self._lines: dict[MessageQueue, deque[Delivery]] = {}
        self._taken: set[MessageQueue] = set()
        """The queues whose first message the listener has."""

    def offer(self, delivery: Delivery) -> None:
        queue = delivery.message.queue
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = deque()
            self._is_ready(queue)
        line.append(delivery)

    @property
    def waiting(self) -> list[ReceivedMessage]:
        """The messages that the listener has not begun."""
        return [message for queue in self._lines for message in self._not_begun(queue)]

    async def leave(self, queue: MessageQueue) -> None:
        """The lite topic went to another member: gives back the messages that the listener has not begun."""
        await self._let_go(self._cut(queue))

    def _not_begun(self, queue: MessageQueue) -> list[ReceivedMessage]:
        deliveries = list(self._lines.get(queue, ()))
        return [each.message for each in (deliveries[1:] if queue in self._taken else deliveries)]

    def _cut(self, queue: MessageQueue) -> list[ReceivedMessage]:
        """Removes and returns the messages that the listener has not begun."""
        messages = self._not_begun(queue)
        for _ in messages:
            self._lines[queue].pop()
        return messages

    async def _take(self, nursery: TaskGroup) -> None:
        queue = self._ready.popleft()
        self._taken.add(queue)
        try:
            goes_on = await self._take_first(queue)
        finally:
            self._taken.discard(queue)
        if not goes_on:
            nursery.start_soon(self._ready_later, queue)
        elif self._lines[queue]:
            self._is_ready(queue)
        else:
            del self._lines[queue]

    async def _ready_later(self, queue: MessageQueue) -> None:
        await anyio.sleep(AGAIN_AFTER_S)
        self._is_ready(queue)

    async def _take_first(self, queue: MessageQueue) -> bool:
        """Passes the first message of a lite topic that is still ours to the listener. False if it has to be tried
        again later, because the broker could not be told that it failed."""
        line = self._lines[queue]
        while line and line[0].unsettled.is_dropped:
            line.popleft()
        if not line:
            return True
        message, unsettled, on_settled = line[0]
        status = await self._call.guarded(message)
        if not unsettled.is_dropped and not status.is_success:
            try:
                await self._send_back(message, status)
            except RocketMQError as error:
                log.warning("send back failed id=%s topic=%s error=%s", message.message_id, message.topic, error)
                return False
            if unsettled.is_dropped:
                await self._let_go(self._cut(queue))
        line.popleft()
        if not unsettled.is_dropped:
            unsettled.settle(message.stored)
            on_settled()
        return True
