"""The queues that a consumer pops from, and its unsettled messages: the common part of popping in no order and in the
order of lite topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from rmqclient.consuming.failed_messages import FailedMessages
from rmqclient.consuming.popping.acks import OutgoingAcks
from rmqclient.consuming.popping.held_messages import HeldMessages
from rmqclient.consuming.popping.queue_popper import QueuePopper
from rmqclient.consuming.popping.retry_limit import RetryLimit
from rmqclient.message import ReceivedMessage
from rmqclient.pop import invisible_ms
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue

IN_FLIGHT_MAX_COUNT = 96
"""``popThresholdForQueue``."""

INVISIBLE_S = 60.0


class PoppedQueues:
    """``owned`` is the consumer's table, changed only here. ``on_change`` is called when a queue was taken or given
    away."""

    def __init__(
        self,
        owned: dict[MessageQueue, QueuePopper],
        client: ClientInstance,
        group: str,
        failed: FailedMessages,
        reconsume_limit: int | None,
        invisible_s: float,
        on_change: Callable[[], None],
    ):
        """``reconsume_limit`` None stands for the group's own. UsageError for an invalid ``invisible_s``."""
        self._owned = owned
        self._on_change = on_change
        self._acks = OutgoingAcks(client, group)
        limit = RetryLimit(client, group, reconsume_limit)
        self.held = HeldMessages(client, group, self._acks, failed, limit, invisible_ms(invisible_s))

    async def start(self, nursery: trio.Nursery) -> None:
        """Starts its tasks and those of the queues in ``nursery``."""
        self._nursery = nursery
        await nursery.start(self._acks.run)
        nursery.start_soon(self.held.run)

    def take(self, topic: str, ours: set[MessageQueue], popper: Callable[[MessageQueue], QueuePopper]) -> None:
        """Takes over and gives away queues of one topic; ``popper`` makes the popper of one queue."""
        for queue in [queue for queue in self._owned if queue.topic == topic and queue not in ours]:
            self._owned.pop(queue).stop()
            self._on_change()
        for queue in sorted(ours - self._owned.keys()):
            owner = self._owned[queue] = popper(queue)
            self._nursery.start_soon(owner.run)
            self._on_change()

    def stop_popping(self) -> None:
        """Stops popping. Popped messages may still be settled."""
        for owner in self._owned.values():
            owner.stop()

    async def close(self, waiting: Iterable[ReceivedMessage]) -> None:
        """Gives back held messages, those of ``waiting`` as not tried, and sends the last acknowledgements."""
        await self.held.close(waiting)
        await self._acks.flush()
