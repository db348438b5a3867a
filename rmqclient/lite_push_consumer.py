"""A member of a group that consumes lite topics: any number below one parent topic, each in order. It may subscribe and
unsubscribe while it runs (``LitePushConsumer`` of RocketMQ 5's clients, over the requests of brokers from 5.5.0 on)."""

from __future__ import annotations

import ssl
from collections.abc import Iterable

import trio

from rmqclient.consuming.failed_messages import FailedMessages
from rmqclient.consuming.group_member import (
    CONCURRENCY,
    CONSUME_TIMEOUT_S,
    FINISH_TIMEOUT_S,
    RECONSUME_BY_GROUP,
    GroupMember,
)
from rmqclient.consuming.message_model import MessageModel
from rmqclient.consuming.popping.lite_deliveries import LiteDeliveries
from rmqclient.consuming.popping.lite_popper import LitePopper
from rmqclient.consuming.popping.lite_topics import LiteTopics
from rmqclient.consuming.popping.popped_queues import IN_FLIGHT_MAX_COUNT, INVISIBLE_S, PoppedQueues
from rmqclient.consuming.popping.queue_popper import PopConsumption
from rmqclient.consuming.rebalance import Rebalance
from rmqclient.consuming.start import ConsumeFrom, Start
from rmqclient.listener import Listener
from rmqclient.remoting.channels import BrokerRequestHandler
from rmqproto.allocate import POP_ALL_QUEUES
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.lite import OffsetOption
from rmqproto.codes import RequestCode
from rmqproto.filters.subscription import ALL
from rmqproto.headers.base import from_ext
from rmqproto.headers.lite import UnsubscribeLiteHeader
from rmqproto.headers.popping import INIT_FROM_MAX
from rmqproto.names import lite_queue_name
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials


class LitePushConsumer(GroupMember):
    """``async with LitePushConsumer("127.0.0.1:9876", "group", "Sessions", listener, lite_topics=["session-1"]):``
    consumes until the body ends. Then the listener gets FINISH_TIMEOUT_S to finish. Messages that it has not finished
    are given back at once.

    Every message is consumed at least once. Messages of one lite topic are consumed one after the other across the
    group: no member gets the next until this one is consumed.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        topic: str,
        listener: Listener,
        *,
        lite_topics: Iterable[str] = (),
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        concurrency: int = CONCURRENCY,
        max_in_flight: int = IN_FLIGHT_MAX_COUNT,
        max_reconsume_times: int = RECONSUME_BY_GROUP,
        consume_timeout_s: float = CONSUME_TIMEOUT_S,
        invisible_s: float = INVISIBLE_S,
        instance_name: str | None = None,
        trace: bool | str = False,
    ):
        """``topic``: the parent topic, with ``message.type=LITE``, to which the group is bound (``lite.bind.topic``).
        ``lite_topics``: the lite topics subscribed to from the start. A wildcard group consumes every lite topic, and
        names none.

        ``concurrency``: lite topics whose messages the listener has at once; ``max_in_flight``: popped and unsettled
        messages per broker. A message that fails comes again before the next one of its lite topic: after 10 s, 30 s, 1
        min and so on (POP_DELAYS_S), or after the time of ``later(level)`` or ``suspend(seconds)``; the latter does not
        count as a failure. Past ``max_reconsume_times`` the message is a dead letter. Messages that were popped behind
        it also come again, and brokers count that for each. The rest is as in PopConsumer.

        UsageError for invalid arguments.
        """
        super().__init__(
            namesrv_addrs,
            group,
            {topic: ALL},
            listener,
            credentials=credentials,
            tls=tls,
            start_at=Start.of(ConsumeFrom.LAST_OFFSET, None),
            message_model=MessageModel.CLUSTERING,
            concurrency=concurrency,
            consume_timeout_s=consume_timeout_s,
            orderly=True,
            instance_name=instance_name,
            trace=trace,
        )
        self.topic = topic
        self._max_in_flight = max_in_flight
        self._lite_topics = LiteTopics(self._client, group, topic, lite_topics)
        limit = None if max_reconsume_times == RECONSUME_BY_GROUP else max_reconsume_times
        failed = FailedMessages(self._client, group, limit)
        self._queues = PoppedQueues(
            self._popped, self._client, group, failed, limit, invisible_s, self._assignment_changed
        )
        held = self._queues.held
        self._deliveries = LiteDeliveries(self._call, concurrency, held.send_back, held.let_go)
        self._rebalance = Rebalance(self._client, [topic], self._ours, self._take)

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics subscribed to now. One that went to another member of an Exclusive group is not among
        them."""
        return frozenset(self._lite_topics.names)

    async def subscribe(self, lite_topic: str, start: OffsetOption | None = None) -> None:
        """Subscribes to a lite topic, which need not exist yet. ``start`` moves the group's offset in it; without it
        the group continues where it is. RefusedError with code 2018 if there are too many subscriptions, with 604 for a
        wildcard group; UsageError for an invalid name. In an Exclusive group the lite topic moves from the member that
        had it to this one."""
        await self._lite_topics.add(lite_topic, start)

    async def unsubscribe(self, lite_topic: str) -> None:
        """Unsubscribes. Messages that the listener has not begun with are given back."""
        await self._lite_topics.discard(lite_topic)
        await self._leave_queues(lite_topic)

    # --- lifetime ----------------------------------------------------------------------------------------------------

    async def _start(self, nursery: trio.Nursery) -> None:
        await self._client.start(nursery)
        self._popping = PopConsumption(
            self.group,
            self._client,
            self._queues.held,
            self._deliveries,
            self._rates,
            INIT_FROM_MAX,
            self._max_in_flight,
        )
        await self._introduce()
        await self._queues.start(nursery)
        await nursery.start(self._deliveries.run)
        if self._traces is not None:
            nursery.start_soon(self._traces.run, self._client)
        nursery.start_soon(self._be_member)

    async def _be_member(self) -> None:
        with self._membership_scope:
            await self._rebalance.run()

    async def _leave(self) -> None:
        self._membership_scope.cancel()
        self._queues.stop_popping()
        with trio.move_on_after(FINISH_TIMEOUT_S):
            await self._deliveries.drain()
        await self._queues.close(self._deliveries.waiting)
        if self._traces is not None:
            await self._traces.flush(self._client)
        await self._lite_topics.leave()
        await self._client.unregister(consumer_group=self.group)

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def _ours(self, topic: str, readable: tuple[MessageQueue, ...]) -> set[MessageQueue] | None:
        """All queues: every broker of the topic gives us its part of our lite topics."""
        return {MessageQueue(topic, queue.broker_name, POP_ALL_QUEUES) for queue in readable}

    async def _take(self, topic: str, ours: set[MessageQueue]) -> bool:
        def popper(broker: MessageQueue) -> LitePopper:
            return LitePopper(broker, self.subscriptions[topic], self._popping, self._lite_topics)

        self._queues.take(topic, ours, popper)
        return True

    # --- what goes to others -----------------------------------------------------------------------------------------

    def _broker_request_handlers(self) -> dict[int, BrokerRequestHandler]:
        return {RequestCode.NOTIFY_UNSUBSCRIBE_LITE: self._unsubscribed}

    async def _unsubscribed(self, request: Command) -> bytes:
        """200073: a lite topic went to another member of an Exclusive group, or was deleted."""
        lite_topic = from_ext(request.ext, UnsubscribeLiteHeader).lite_topic
        self._lite_topics.names.discard(lite_topic)
        await self._leave_queues(lite_topic)
        return b""

    async def _leave_queues(self, lite_topic: str) -> None:
        """Gives the queues of a lite topic back."""
        for broker in list(self._popped):
            name = lite_queue_name(self.topic, lite_topic)
            await self._deliveries.leave(MessageQueue(name, broker.broker_name, 0))
