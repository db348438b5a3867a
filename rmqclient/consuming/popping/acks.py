"""Sending of acknowledgements. Those that arrive for a broker while a request is under way go in the next one, many in
one request (``BATCH_ACK_MESSAGE``, 5.5.0)."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup, TaskStatus

from rmqclient.consuming.popping.pop import PoppedMessage, acknowledge
from rmqclient.parking import ParkingLot
from rmqclient.remoting.client_instance import ClientInstance
from rmqclient.sending import BUSY_CODES
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError, RefusedError, RequestTimeoutError, RocketMQError

log = logging.getLogger(__name__)

BATCH_MAX = 256
"""Messages in one request."""

AGAIN_AFTER_S = 0.5
"""The pause after a broker could not be reached, or is not the master."""


class _Waiting(NamedTuple):
    """A message, and the time after which its acknowledgement is too late."""

    message: PoppedMessage
    until_s: float


class OutgoingAcks:
    """``run`` runs in a task. A failed acknowledgement is repeated while the message is invisible. After that the
    message comes again anyway."""

    def __init__(self, client: ClientInstance, group: str):
        self._client = client
        self._group = group
        self._waiting: defaultdict[str, deque[_Waiting]] = defaultdict(deque)  # by broker name
        self._under_way: dict[str, list[_Waiting]] = {}  # by name of a broker with a request under way
        self._progress = ParkingLot()
        self._nursery: TaskGroup | None = None

    async def run(self, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as self._nursery:
            task_status.started()
            await anyio.sleep_forever()

    def add(self, message: PoppedMessage, until_s: float) -> None:
        """Adds an acknowledgement; ``run`` must have begun. ``until_s`` is on anyio's clock."""
        broker_name = message.broker_name
        self._waiting[broker_name].append(_Waiting(message, until_s))
        if broker_name not in self._under_way:
            assert self._nursery is not None
            self._under_way[broker_name] = []
            self._nursery.start_soon(self._send_all, broker_name)

    async def flush(self) -> None:
        """Returns once every acknowledgement is answered or too late."""
        while self._under_way:
            await self._progress.park()

    async def flush_queue(self, queue: MessageQueue) -> None:
        """Returns once no acknowledgement of the queue is on its way."""
        broker = queue.broker_name
        while any(each.message.queue == queue for each in (*self._under_way.get(broker, ()), *self._waiting[broker])):
            await self._progress.park()

    async def _send_all(self, broker_name: str) -> None:
        waiting = self._waiting[broker_name]
        while waiting:
            taken = self._under_way[broker_name] = [waiting.popleft() for _ in range(min(len(waiting), BATCH_MAX))]
            try:
                with self._client.routes.looking_for_master():
                    await acknowledge(self._client, self._group, [each.message for each in taken])
            except RocketMQError as error:
                if isinstance(error, (ConnectError, RequestTimeoutError)) or (
                    isinstance(error, RefusedError) and error.code in BUSY_CODES
                ):
                    log.warning("ack failed broker=%s count=%d error=%s", broker_name, len(taken), error)
                    waiting.extendleft(reversed(taken))
                    await anyio.sleep(AGAIN_AFTER_S)
                    self._drop_late(waiting)
                else:
                    log.warning("ack refused broker=%s count=%d error=%s", broker_name, len(taken), error)
            self._progress.unpark_all()  # waiting tasks look when this task waits or is done
        del self._under_way[broker_name]

    def _drop_late(self, waiting: deque[_Waiting]) -> None:
        now_s = anyio.current_time()
        kept = [each for each in waiting if each.until_s > now_s]
        if len(kept) < len(waiting):
            log.warning("acks given up, their messages come again count=%d", len(waiting) - len(kept))
            waiting.clear()
            waiting.extend(kept)
