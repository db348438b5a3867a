"""A consumer that is polled, and pulls ahead in the background: from queues that the application names (``assign``), or
from its share of topics as a member of its group (``subscribe``) (``DefaultLitePullConsumer``, 5.5.0)."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from rmqclient.consuming import start
from rmqclient.consuming.member import AnyMember
from rmqclient.consuming.offset_store import OffsetStore, offset_store
from rmqclient.consuming.pulled_queues import PolledQueue, Pulling
from rmqclient.consuming.rebalance import Allocation, Rebalance, Sticky
from rmqclient.consuming.start import ConsumeFrom, Start
from rmqclient.consuming.subscribing import MessageModel, check_expressions, subscription_of
from rmqclient.lifetime import P
from rmqclient.message import ReceivedMessage
from rmqclient.parking import ParkingLot
from rmqclient.threads import Blocking, called, called_in_loop
from rmqproto.allocate import Strategy, averagely
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import CONSUME_ACTIVELY, Heartbeat, SubscriptionData
from rmqproto.errors import RefusedError, RocketMQError, UsageError
from rmqproto.filters.subscription import ALL, Sql92
from rmqproto.wire.credentials import Credentials

log = logging.getLogger(__name__)

AUTO_COMMIT_INTERVAL_S = 5.0
POLL_TIMEOUT_S = 5.0
POLL_MAX_COUNT = 10
KEPT_MAX_COUNT = 1000
"""These four as in Apache's client (``autoCommitIntervalMillis``, ``pollTimeoutMillis``, ``pullBatchSize``,
``pullThresholdForQueue`` messages kept per queue)."""


class LitePullConsumer(AnyMember[PolledQueue]):
    """``async with LitePullConsumer("127.0.0.1:9876", "group") as consumer: await consumer.subscribe("Topic")``, and
    then ``await consumer.poll()`` again and again.

    All offsets are queue offsets. A poll means that the messages of earlier polls have been processed. With
    ``auto_commit`` their offsets are stored periodically, when a queue goes to another member, and at the end. Messages
    of the last poll come again after a restart, unless ``commit`` was called. Only one task may poll.
    """

    _consume_type = CONSUME_ACTIVELY

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        consume_from: ConsumeFrom | str = ConsumeFrom.LAST_OFFSET,
        consume_from_ms: int | None = None,
        allocate: Strategy | Sticky = averagely,
        message_model: MessageModel | str = MessageModel.CLUSTERING,
        auto_commit: bool = True,
        auto_commit_interval_s: float = AUTO_COMMIT_INTERVAL_S,
        instance_name: str | None = None,
        offset_dir: Path | None = None,
    ):
        """As PushConsumer. UsageError for invalid arguments."""
        super().__init__(
            namesrv_addrs,
            group,
            {},
            start_at=Start.of(consume_from, consume_from_ms),
            message_model=MessageModel.of(message_model),
            credentials=credentials,
            tls=tls,
            instance_name=instance_name,
        )
        self._auto_commit = auto_commit
        self._auto_commit_interval_s = auto_commit_interval_s
        self._offset_dir = offset_dir
        self._is_assigned_by_hand = False
        self._turn = 0
        self._arrived = ParkingLot()
        self._committed_s = 0.0
        allocation = Allocation(self._client, group, None if self._is_broadcasting else allocate, self._pulled)
        self._rebalance = Rebalance(self._client, self.subscriptions, allocation.ours, self._take)

    @classmethod
    def blocking(cls: Callable[P, LitePullConsumer], *args: P.args, **kwargs: P.kwargs) -> BlockingLitePullConsumer:
        """The same for plain threads: ``with LitePullConsumer.blocking(...) as consumer:``."""
        return BlockingLitePullConsumer(cls(*args, **kwargs))

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The assigned queues, including paused ones."""
        return frozenset(self._pulled)

    # --- which queues ------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, expression: str | Sql92 = ALL) -> None:
        """Takes this member's share of a topic, or for a topic that it has, another expression. UsageError after
        ``assign``, and for an expression that names no tag; RefusedError for one that a broker does not accept."""
        if self._is_assigned_by_hand:
            raise UsageError("subscribe and assign exclude each other", hint="Use one consumer for each.")
        subscription = subscription_of(topic, expression)
        await check_expressions(self._client, self.group, [subscription])
        for queue, assigned in self._pulled.items():
            if queue.topic == topic:
                assigned.take_subscription(subscription)
        self.subscriptions[topic] = subscription
        await self._client.heartbeat_to(self._client.routes.broker_addresses())
        self._rebalance.soon()

    async def unsubscribe(self, topic: str) -> None:
        """Gives the topic's queues away. Without any subscription left, the consumer leaves the group. With others
        left, it still counts as a member for this topic, as every member does for all topics of its group."""
        self.subscriptions.pop(topic, None)
        await self._drop([queue for queue in self._pulled if queue.topic == topic])
        if self.subscriptions:
            await self._client.heartbeat_to(self._client.routes.broker_addresses())
        else:
            await self._client.unregister(consumer_group=self.group)

    async def assign(self, queues: Iterable[MessageQueue], expression: str | Sql92 = ALL) -> None:
        """Takes exactly these queues, even if other consumers read them. One that was assigned before goes on where it
        is, with this expression. UsageError after ``subscribe``, and errors of the expression as of ``subscribe``."""
        if self.subscriptions:
            raise UsageError("subscribe and assign exclude each other", hint="Use one consumer for each.")
        wanted = set(queues)
        subscriptions = {topic: subscription_of(topic, expression) for topic in {queue.topic for queue in wanted}}
        for topic in subscriptions:
            await self._client.routes.queues(topic)
        await check_expressions(self._client, self.group, subscriptions.values())
        self._is_assigned_by_hand = True
        await self._drop(self._pulled.keys() - wanted)
        for queue, assigned in self._pulled.items():
            assigned.take_subscription(subscriptions[queue.topic])
        for queue in sorted(wanted - self._pulled.keys()):
            self._add(queue, subscriptions[queue.topic])
        await self._client.heartbeat_to(self._client.routes.broker_addresses())

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues. RefusedError with code 17 for a topic that does not exist."""
        return list((await self._client.routes.queues(topic)).readable)

    # --- messages ----------------------------------------------------------------------------------------------------

    async def poll(
        self, timeout_s: float = POLL_TIMEOUT_S, *, max_count: int = POLL_MAX_COUNT
    ) -> list[ReceivedMessage]:
        """Up to ``max_count`` messages, from all queues in turn; an empty list if none came within ``timeout_s``."""
        for assigned in self._pulled.values():
            assigned.done_offset = assigned.position
        if self._auto_commit and anyio.current_time() >= self._committed_s + self._auto_commit_interval_s:
            await self._commit_done(list(self._pulled.values()))
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(timeout_s):
            while not (polled := self._take_polled(max_count)):
                await self._arrived.park()
            return polled
        return []

    def _take_polled(self, max_count: int) -> list[ReceivedMessage]:
        polled: list[ReceivedMessage] = []
        queues = list(self._pulled.values())
        self._turn += 1
        for number in range(len(queues)):
            polled += queues[(self._turn + number) % len(queues)].poll(max_count - len(polled))
        return polled

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Makes the next poll return the message at ``queue_offset``. UsageError for a queue that is not assigned."""
        if queue_offset < 0:
            raise UsageError(f"{queue_offset} is not a queue offset")
        self._queue(queue).reset(queue_offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        self.seek(queue, await start.min_offset(self._client, queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        self.seek(queue, await start.max_offset(self._client, queue))

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time, in ms since the epoch; the end if all are
        older."""
        await self._client.routes.queues(queue.topic)
        return await start.offset_at(self._client, queue, timestamp_ms)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Polls return nothing from these queues until ``resume``. UsageError for a queue that is not assigned."""
        for queue in queues:
            self._queue(queue).is_paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self._queue(queue).is_paused = False
        self._on_pulled()

    # --- how far -----------------------------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the next message that a poll returns; None while it is not known."""
        return self._queue(queue).position

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Stores these offsets, or without them, for every queue, the offset up to which messages were polled.
        RocketMQError if one was not stored; the others are. A broker that does not answer is asked only once."""
        if offsets is None:
            positions = {queue: assigned.position for queue, assigned in self._pulled.items()}
            offsets = {queue: position for queue, position in positions.items() if position is not None}
        problem: RocketMQError | None = None
        silent: set[str] = set()
        for queue, queue_offset in offsets.items():
            if queue.broker_name in silent:
                continue
            try:
                await self._client.routes.queues(queue.topic)
                await self._offsets.write(queue, queue_offset)
            except RocketMQError as error:
                problem = error
                if not isinstance(error, RefusedError):
                    silent.add(queue.broker_name)
        await self._offsets.flush()
        if problem is not None:
            raise problem

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset stored for the group; None if there is none."""
        await self._client.routes.queues(queue.topic)
        return await self._offsets.read(queue)

    async def _commit_done(self, assigned: Iterable[PolledQueue]) -> None:
        """A failure is logged and tried again next time."""
        self._committed_s = anyio.current_time()
        done = {each.queue: each.done_offset for each in assigned if each.done_offset is not None}
        try:
            await self.commit(done)
        except RocketMQError as error:
            log.warning("commit failed group=%s error=%s", self.group, error)

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _start(self, nursery: TaskGroup) -> None:
        """StorageError for local offsets that cannot be read."""
        await self._client.start(nursery)
        self._committed_s = anyio.current_time()
        self._offsets: OffsetStore = offset_store(self._client, self.group, self._message_model, self._offset_dir)
        self._shared = Pulling(
            self.group, self._client, self._start_at, self._offsets, self._rates, KEPT_MAX_COUNT, is_lite=True
        )
        self._nursery_of_queues = nursery
        self._join(nursery)

    async def _leave(self) -> None:
        self._membership_scope.cancel()
        await self._drop(list(self._pulled))
        await self._client.unregister(consumer_group=self.group)

    def _heartbeat(self, client_id: str) -> Heartbeat:
        if not self.subscriptions and not self._is_assigned_by_hand:
            return Heartbeat(client_id=client_id)
        return super()._heartbeat(client_id)

    async def _take(self, topic: str, ours: set[MessageQueue]) -> bool:
        if topic not in self.subscriptions:
            return True  # unsubscribed in the meantime
        await self._drop([queue for queue in self._pulled if queue.topic == topic and queue not in ours])
        for queue in sorted(ours - self._pulled.keys()):
            self._add(queue, self.subscriptions[topic])
        return True

    def _add(self, queue: MessageQueue, subscription: SubscriptionData) -> None:
        assigned = self._pulled[queue] = PolledQueue(queue, subscription, self._shared, self._on_pulled)
        self._nursery_of_queues.start_soon(assigned.run)

    async def _drop(self, queues: Iterable[MessageQueue]) -> None:
        dropped = [self._pulled.pop(queue) for queue in queues]
        for assigned in dropped:
            assigned.drop()
        if self._auto_commit and dropped:
            await self._commit_done(dropped)

    def _queue(self, queue: MessageQueue) -> PolledQueue:
        assigned = self._pulled.get(queue)
        if assigned is None:
            raise UsageError(f"queue {queue} is not assigned", hint="assignment lists the assigned queues.")
        return assigned

    def _on_pulled(self) -> None:
        self._arrived.unpark_all()


class BlockingLitePullConsumer(Blocking[LitePullConsumer]):
    subscribe = called(LitePullConsumer.subscribe)
    unsubscribe = called(LitePullConsumer.unsubscribe)
    assign = called(LitePullConsumer.assign)
    queues = called(LitePullConsumer.queues)
    poll = called(LitePullConsumer.poll)
    seek = called_in_loop(LitePullConsumer.seek)
    seek_to_begin = called(LitePullConsumer.seek_to_begin)
    seek_to_end = called(LitePullConsumer.seek_to_end)
    offset_for_timestamp = called(LitePullConsumer.offset_for_timestamp)
    pause = called_in_loop(LitePullConsumer.pause)
    resume = called_in_loop(LitePullConsumer.resume)
    position = called_in_loop(LitePullConsumer.position)
    commit = called(LitePullConsumer.commit)
    committed = called(LitePullConsumer.committed)
