"""A member of a consumer group that pops: brokers hand it messages for a time, and each message is settled on its own
(``DefaultMQPushConsumerImpl`` in mode POP, 5.5.0). No member owns a queue, so a slow member does not hold up the
others, and a group may usefully have more members than queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from anyio.abc import TaskGroup

from rmqclient.consuming.broker_assignment import BrokerAssignment
from rmqclient.consuming.deliveries import ConcurrentDeliveries
from rmqclient.consuming.group_member import UNSETTLED_MAX_COUNT, GroupMember, MemberOptions
from rmqclient.consuming.offset_store import BrokerOffsetStore
from rmqclient.consuming.popping.held_messages import HeldMessages
from rmqclient.consuming.popping.pop import PoppedMessage, init_mode, invisible_ms
from rmqclient.consuming.popping.popped_queues import (
    IN_FLIGHT_MAX_COUNT,
    INVISIBLE_S,
    PoppedQueues,
    PopRules,
    QueuePopper,
)
from rmqclient.consuming.pulled_queues import PulledQueues, Pulling
from rmqclient.consuming.rebalance import Rebalance
from rmqclient.consuming.start import ConsumeFrom, Start
from rmqclient.listener import ConsumeStatus, Listener
from rmqclient.message import ReceivedMessage
from rmqproto.bodies.base import MessageQueue
from rmqproto.filters.subscription import Sql92
from rmqproto.names import retry_topic


class PopConsumer(GroupMember):
    """``async with PopConsumer("127.0.0.1:9876", "group", {"Topic": "TagA || TagB"}, listener):`` consumes until the
    body ends. Then the listener gets FINISH_TIMEOUT_S to finish. Messages that it has not finished are given back at
    once.

    Every message is consumed at least once. After a crash it comes again when its invisible time is over.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        subscriptions: Mapping[str, str | Sql92],
        listener: Listener,
        *,
        consume_from: ConsumeFrom | str = ConsumeFrom.LAST_OFFSET,
        max_in_flight: int = IN_FLIGHT_MAX_COUNT,
        invisible_s: float = INVISIBLE_S,
        set_mode: bool = False,
        share_queue_num: int = 0,
        **options: Unpack[MemberOptions],
    ):
        """As PushConsumer. A message is invisible to others for ``invisible_s``. That time is renewed while the message
        waits for the listener or the listener has it. A message that fails comes again after 10 s, 30 s, 1 min and so
        on (POP_DELAYS_S), or after the time of ``later(level)`` or ``suspend(seconds)``; the latter does not count as a
        failure. Past ``max_reconsume_times`` it is a dead letter. ``max_in_flight``: popped and unsettled messages per
        queue or, if all members share all queues, per broker.

        A group pops a topic if an operator has set that mode (``rmqadmin setConsumeMode``). ``set_mode`` sets it here,
        for topics that the group still pulls. ``share_queue_num`` is then how many other members each member shares its
        queues with; 0 means that all share all.

        UsageError for invalid arguments.
        """
        start_at = Start.of(consume_from, None)
        super().__init__(namesrv_addrs, group, subscriptions, listener, start_at=start_at, **options)
        self._init_mode = init_mode(start_at.consume_from)
        self._max_in_flight = max_in_flight
        self._held = HeldMessages(self._client, group, self._failed, invisible_ms(invisible_s))
        self._assignment = BrokerAssignment(self._client, group, subscriptions if set_mode else (), share_queue_num)
        self._rebalance = Rebalance(self._client, self.subscriptions, self._assignment.ours, self._take)

    def _open(self) -> _PoppedAndRetried:
        deliveries = ConcurrentDeliveries(self._call, self._send_back)
        popping = PopRules(
            self.group, self._client, self._held, deliveries, self._rates, self._init_mode, self._max_in_flight
        )
        popped = PoppedQueues(self._popped, self.subscriptions, popping, QueuePopper, self._assignment_changed)
        pulling = Pulling(
            self.group,
            self._client,
            self._start_at,
            BrokerOffsetStore(self._client, self.group),
            self._rates,
            UNSETTLED_MAX_COUNT,
            commits_in_pulls=True,
        )
        retried = PulledQueues(self._pulled, self.subscriptions, pulling, deliveries, None, self._assignment_changed)
        return _PoppedAndRetried(popped, retried, retry_topic(self.group))

    async def _introduce(self) -> None:
        """UsageError if the group pulls a topic and ``set_mode`` does not change that."""
        await super()._introduce()
        await self._assignment.check(self.subscriptions.keys() - {retry_topic(self.group)})

    async def _send_back(self, message: ReceivedMessage, status: ConsumeStatus) -> None:
        send_back = self._held.send_back if isinstance(message, PoppedMessage) else self._failed.send_back
        await send_back(message, status)


class _PoppedAndRetried:
    """A ``GroupSource`` that pops, and pulls the plain retry topic, which is never popped. Messages that failed while
    the group still pulled are there."""

    def __init__(self, popped: PoppedQueues, retried: PulledQueues, retry: str):
        self.deliveries = popped.deliveries
        self._popped = popped
        self._retried = retried
        self._retry_topic = retry

    async def start(self, nursery: TaskGroup) -> None:
        await self._retried.start(nursery)
        await self._popped.start(nursery)

    async def take(self, topic: str, ours: set[MessageQueue]) -> bool:
        return await (self._retried if topic == self._retry_topic else self._popped).take(topic, ours)

    def stop(self) -> None:
        self._popped.stop()
        self._retried.stop()

    async def close(self) -> None:
        await self._retried.close()
        await self._popped.close()
