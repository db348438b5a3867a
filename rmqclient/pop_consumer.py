"""A member of a consumer group that pops: brokers hand it messages for a time, and each message is settled on its own
(``DefaultMQPushConsumerImpl`` in mode POP, 5.5.0). No member owns a queue, so a slow member does not hold up the
others, and a group may usefully have more members than queues."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping

import trio

from rmqclient.consuming.broker_assignment import POP, BrokerAssignment
from rmqclient.consuming.deliveries import ConcurrentDeliveries
from rmqclient.consuming.failed_messages import FailedMessages
from rmqclient.consuming.group_member import (
    CONCURRENCY,
    CONSUME_TIMEOUT_S,
    FINISH_TIMEOUT_S,
    RECONSUME_BY_GROUP,
    UNSETTLED_MAX_COUNT,
    GroupMember,
)
from rmqclient.consuming.message_model import MessageModel
from rmqclient.consuming.offset_store import BrokerOffsetStore
from rmqclient.consuming.popping.popped_queues import IN_FLIGHT_MAX_COUNT, INVISIBLE_S, PoppedQueues
from rmqclient.consuming.popping.queue_popper import PopConsumption, QueuePopper
from rmqclient.consuming.pulled_queues import PulledQueues
from rmqclient.consuming.queue_consumer import Consumption
from rmqclient.consuming.rebalance import Rebalance
from rmqclient.consuming.start import ConsumeFrom, Start
from rmqclient.listener import ConsumeStatus, Listener
from rmqclient.message import ReceivedMessage
from rmqclient.pop import PoppedMessage, init_mode
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.popping import QueueAssignment
from rmqproto.errors import UsageError
from rmqproto.filters.subscription import Sql92
from rmqproto.names import retry_topic
from rmqproto.wire.credentials import Credentials

log = logging.getLogger(__name__)


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
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        consume_from: ConsumeFrom | str = ConsumeFrom.LAST_OFFSET,
        concurrency: int = CONCURRENCY,
        max_in_flight: int = IN_FLIGHT_MAX_COUNT,
        max_reconsume_times: int = RECONSUME_BY_GROUP,
        consume_timeout_s: float = CONSUME_TIMEOUT_S,
        invisible_s: float = INVISIBLE_S,
        set_mode: bool = False,
        share_queue_num: int = 0,
        instance_name: str | None = None,
        trace: bool | str = False,
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
        super().__init__(
            namesrv_addrs,
            group,
            subscriptions,
            listener,
            credentials=credentials,
            tls=tls,
            start_at=Start.of(consume_from, None),
            message_model=MessageModel.CLUSTERING,
            concurrency=concurrency,
            consume_timeout_s=consume_timeout_s,
            orderly=False,
            instance_name=instance_name,
            trace=trace,
        )
        self._init_mode = init_mode(self._start_at.consume_from)
        self._max_in_flight = max_in_flight
        self._modes_to_set = set(subscriptions) if set_mode else set()
        self._share_queue_num = share_queue_num
        self._retry_topic = retry_topic(group)
        limit = None if max_reconsume_times == RECONSUME_BY_GROUP else max_reconsume_times
        self._failed = FailedMessages(self._client, group, limit)
        self._deliveries = ConcurrentDeliveries(self._call, concurrency, self._send_back)
        self._queues = PoppedQueues(
            self._popped, self._client, group, self._failed, limit, invisible_s, self._assignment_changed
        )
        self._broker_assignment = BrokerAssignment(self._client, group)
        self._rebalance = Rebalance(self._client, self.subscriptions, self._ours, self._take)

    # --- lifetime ----------------------------------------------------------------------------------------------------

    async def _start(self, nursery: trio.Nursery) -> None:
        """UsageError if the group pulls a topic and ``set_mode`` does not change that."""
        await self._client.start(nursery)
        self._popping = PopConsumption(
            self.group,
            self._client,
            self._queues.held,
            self._deliveries,
            self._rates,
            self._init_mode,
            self._max_in_flight,
        )
        self._retries = self._pulled_retries(nursery)
        await self._introduce()
        await self._check_modes()
        await self._queues.start(nursery)
        await nursery.start(self._deliveries.run)
        if self._traces is not None:
            nursery.start_soon(self._traces.run, self._client)
        nursery.start_soon(self._be_member)

    def _pulled_retries(self, nursery: trio.Nursery) -> PulledQueues:
        """Pulls the plain retry topic, which is never popped. Messages that failed while the group still pulled are
        there."""
        shared = Consumption(
            self.group,
            self._client,
            self._start_at,
            BrokerOffsetStore(self._client, self.group),
            self._deliveries,
            self._rates,
            None,
            UNSETTLED_MAX_COUNT,
            commits_in_pulls=True,
        )
        return PulledQueues(self._pulled, self.subscriptions, shared, nursery, self._assignment_changed)

    async def _check_modes(self) -> None:
        """Checks the modes of the topics that exist already."""
        for topic in self.subscriptions.keys() - {self._retry_topic}:
            queues = self._client.routes.known(topic)
            assigned = await self._assigned(topic, queues.readable) if queues is not None else None
            if assigned and not _are_popped(assigned):
                raise self._is_pulled_yet(topic)

    async def _be_member(self) -> None:
        with self._membership_scope:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(self._retries.commit_forever)
                await self._rebalance.run()

    async def _leave(self) -> None:
        self._membership_scope.cancel()
        self._queues.stop_popping()
        self._retries.stop_pulling()
        with trio.move_on_after(FINISH_TIMEOUT_S):
            await self._deliveries.drain()
        await self._retries.commit_all()
        await self._queues.close(self._deliveries.waiting)
        if self._traces is not None:
            await self._traces.flush(self._client)
        await self._client.unregister(consumer_group=self.group)

    # --- whose queues ------------------------------------------------------------------------------------------------

    async def _ours(self, topic: str, readable: tuple[MessageQueue, ...]) -> set[MessageQueue] | None:
        assigned = await self._assigned(topic, readable)
        if assigned is None:
            return None
        if topic != self._retry_topic and not _are_popped(assigned):
            log.warning("nothing is popped: %s", self._is_pulled_yet(topic))
            return set()
        return {each.message_queue for each in assigned}

    async def _assigned(self, topic: str, readable: tuple[MessageQueue, ...]) -> list[QueueAssignment] | None:
        """Asks the broker. Sets the mode first if that is wanted and has not been done yet."""
        assigned = await self._broker_assignment.ask(topic, readable)
        if assigned and topic in self._modes_to_set:
            if not _are_popped(assigned):
                await self._broker_assignment.set_pop(topic, readable, self._share_queue_num)
                assigned = await self._broker_assignment.ask(topic, readable)
            self._modes_to_set.discard(topic)
        return assigned

    def _is_pulled_yet(self, topic: str) -> UsageError:
        return UsageError(
            f"group {self.group} pulls topic {topic}: nobody has set its mode to POP",
            hint=f"rmqadmin setConsumeMode -c CLUSTER -t {topic} -g {self.group} -m POP, or set_mode=True.",
        )

    async def _take(self, topic: str, ours: set[MessageQueue]) -> bool:
        if topic == self._retry_topic:
            return await self._retries.take(topic, ours)
        subscription = self.subscriptions[topic]
        self._queues.take(topic, ours, lambda queue: QueuePopper(queue, subscription, self._popping))
        return True

    # --- what was not consumed ---------------------------------------------------------------------------------------

    async def _send_back(self, message: ReceivedMessage, status: ConsumeStatus) -> None:
        if isinstance(message, PoppedMessage):
            await self._queues.held.send_back(message, status)
        else:
            await self._failed.send_back(message, status)


def _are_popped(assigned: list[QueueAssignment]) -> bool:
    return all(each.mode == POP for each in assigned)
