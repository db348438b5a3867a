"""A member of a group that consumes lite topics: any number below one parent topic, each in order. It may subscribe and
unsubscribe while it runs (``LitePushConsumer`` of RocketMQ 5's clients, over the requests of brokers from 5.5.0 on)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Unpack

from rmqclient.consuming.group_member import BlockingMember, GroupMember, MemberOptions
from rmqclient.consuming.popping.held_messages import HeldMessages
from rmqclient.consuming.popping.lite_deliveries import LiteDeliveries
from rmqclient.consuming.popping.lite_topics import LiteTopics
from rmqclient.consuming.popping.pop import invisible_ms
from rmqclient.consuming.popping.popped_queues import (
    IN_FLIGHT_MAX_COUNT,
    INVISIBLE_S,
    LitePopper,
    PoppedQueues,
    PopRules,
)
from rmqclient.consuming.rebalance import Rebalance
from rmqclient.consuming.start import ConsumeFrom, Start
from rmqclient.lifetime import P
from rmqclient.listener import Listener
from rmqclient.remoting.channels import BrokerRequestHandler
from rmqclient.threads import called
from rmqproto.allocate import POP_ALL_QUEUES
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.lite import OffsetOption
from rmqproto.codes import RequestCode
from rmqproto.filters.subscription import ALL
from rmqproto.headers.base import from_ext
from rmqproto.headers.popping import INIT_FROM_MAX, UnsubscribeLiteHeader
from rmqproto.names import lite_queue_name
from rmqproto.wire.command import Command


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
        max_in_flight: int = IN_FLIGHT_MAX_COUNT,
        invisible_s: float = INVISIBLE_S,
        **options: Unpack[MemberOptions],
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
        start_at = Start.of(ConsumeFrom.LAST_OFFSET, None)
        super().__init__(namesrv_addrs, group, {topic: ALL}, listener, start_at=start_at, orderly=True, **options)
        self.topic = topic
        self._max_in_flight = max_in_flight
        self._lite_topics = LiteTopics(self._client, group, topic, lite_topics)
        self._held = HeldMessages(self._client, group, self._failed, invisible_ms(invisible_s))
        self._rebalance = Rebalance(self._client, [topic], self._ours, self._take)

    @classmethod
    def blocking(cls: Callable[P, LitePushConsumer], *args: P.args, **kwargs: P.kwargs) -> BlockingLiteMember:
        """The same for plain threads."""
        return BlockingLiteMember(cls(*args, **kwargs))

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

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def _ours(self, topic: str, readable: tuple[MessageQueue, ...]) -> set[MessageQueue] | None:
        """All queues: every broker of the topic gives us its part of our lite topics."""
        return {MessageQueue(topic, queue.broker_name, POP_ALL_QUEUES) for queue in readable}

    def _open(self) -> PoppedQueues:
        deliveries = LiteDeliveries(self._call, self._held.send_back, self._held.let_go)
        popping = PopRules(
            self.group, self._client, self._held, deliveries, self._rates, INIT_FROM_MAX, self._max_in_flight
        )
        popper = partial(LitePopper, lite_topics=self._lite_topics)
        return PoppedQueues(self._popped, self.subscriptions, popping, popper, self._assignment_changed)

    async def _unregister(self) -> None:
        await self._lite_topics.leave()
        await super()._unregister()

    # --- what goes to others -----------------------------------------------------------------------------------------

    def _broker_request_handlers(self) -> dict[int, BrokerRequestHandler]:
        return {**super()._broker_request_handlers(), RequestCode.NOTIFY_UNSUBSCRIBE_LITE: self._unsubscribed}

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
            await self._source.deliveries.leave(MessageQueue(name, broker.broker_name, 0))


class BlockingLiteMember(BlockingMember):
    subscribe = called(LitePushConsumer.subscribe)
    unsubscribe = called(LitePushConsumer.unsubscribe)
