"""The queues that a consumer pulls from: it takes them over, gives them away, and commits their offsets. In each it
finds the start, does one pull after the other, and keeps messages until they are settled (``RebalancePushImpl``,
``DefaultMQPushConsumerImpl.pullMessage``, ``DefaultLitePullConsumerImpl.PullTaskImpl``, 5.5.0)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from rmqclient.consuming.deliveries import Deliveries, Delivery
from rmqclient.consuming.offset_store import OffsetStore
from rmqclient.consuming.process_queue import ProcessQueue
from rmqclient.consuming.puller import QUEUE_MAX_BYTES, SPAN_MAX, Puller
from rmqclient.consuming.queue_lease import QueueLeases
from rmqclient.consuming.rates import Rates
from rmqclient.consuming.start import Start, first_offset
from rmqclient.message import ReceivedMessage
from rmqclient.parking import ParkingLot
from rmqclient.pull import PullResult, PullStatus
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.bodies.statistics import ProcessQueueInfo
from rmqproto.errors import RocketMQError
from rmqproto.headers.consuming import PULL_BATCH_COUNT

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S = 5.0


class PulledQueues:
    """A ``GroupSource``. ``owned`` is the consumer's table, changed only here."""

    def __init__(
        self,
        owned: dict[MessageQueue, DeliveredQueue],
        subscriptions: Mapping[str, SubscriptionData],
        shared: Pulling,
        deliveries: Deliveries,
        leases: QueueLeases | None,
        on_change: Callable[[], None],
    ):
        """``leases`` is the queues'. ``on_change`` is called when a queue was taken or given away, and when the start
        of a queue is known."""
        self.deliveries = deliveries
        self._owned = owned
        self._subscriptions = subscriptions
        self._shared = shared
        self._leases = leases
        self._on_change = on_change
        self._leaving: set[MessageQueue] = set()
        self._commit_scope = anyio.CancelScope()

    async def start(self, nursery: TaskGroup) -> None:
        self._nursery = nursery
        nursery.start_soon(self._commit_forever)
        if self._leases is not None:
            nursery.start_soon(self._leases.renew_forever)

    async def take(self, topic: str, ours: set[MessageQueue]) -> bool:
        for queue in [queue for queue in self._owned if queue.topic == topic and queue not in ours]:
            await self._give_away(queue)
        fresh = ours - self._owned.keys() - self._leaving
        if self._leases is not None and fresh:
            fresh = await self._leases.lock(fresh)
        for queue in sorted(fresh):
            self._take_over(queue)
        return ours <= self._owned.keys()

    def stop(self) -> None:
        self._commit_scope.cancel()
        for owner in self._owned.values():
            owner.stop_pulling()

    async def close(self) -> None:
        await self._commit_all()
        if self._leases is not None:
            await self._leases.unlock_all()

    async def _commit_forever(self) -> None:
        with self._commit_scope:
            while True:
                await anyio.sleep(COMMIT_INTERVAL_S)
                await self._commit_all()

    async def _commit_all(self) -> None:
        """Commits all offsets. A failure is logged and tried again next time."""
        async with anyio.create_task_group() as nursery:
            for owner in self._owned.values():
                nursery.start_soon(owner.commit)
        try:
            await self._shared.offsets.flush()
        except RocketMQError as error:
            log.warning("offsets not stored group=%s error=%s", self._shared.group, error)

    def _take_over(self, queue: MessageQueue) -> None:
        subscription = self._subscriptions[queue.topic]
        owner = DeliveredQueue(queue, subscription, self._shared, self.deliveries, self._leases, self._on_change)
        self._owned[queue] = owner
        self._nursery.start_soon(owner.run)
        self._on_change()
        log.info("queue taken over group=%s queue=%s", self._shared.group, queue)

    async def _give_away(self, queue: MessageQueue) -> None:
        owner, group = self._owned.pop(queue), self._shared.group
        self._on_change()
        log.info("queue given away group=%s queue=%s committed_offset=%s", group, queue, owner.committed_offset)
        if self._leases is None:
            owner.drop()
            await owner.commit()
        else:
            owner.stop_pulling()
            self._leaving.add(queue)
            self._nursery.start_soon(self._give_back_lock, queue, owner, self._leases)

    async def _give_back_lock(self, queue: MessageQueue, owner: DeliveredQueue, leases: QueueLeases) -> None:
        """Unlocks the queue once the listener is done with its current message. Other queues do not wait for that."""
        await self.deliveries.leave(queue)
        owner.drop()
        await owner.commit()
        await leases.unlock([queue])
        self._leaving.discard(queue)


# --- one queue -------------------------------------------------------------------------------------------------------

AFTER_ILLEGAL_OFFSET_S = 0.2
"""The pause if a broker reports every offset as illegal."""


@dataclass(frozen=True, slots=True)
class Pulling:
    """The part that the queues of one consumer share. With ``commits_in_pulls`` each pull carries the offset, and the
    broker stores it. ``is_lite`` is the puller's."""

    group: str
    client: ClientInstance
    start: Start
    offsets: OffsetStore
    rates: Rates
    kept_max_count: int
    is_lite: bool = False
    commits_in_pulls: bool = False
    pull_batch_size: int = PULL_BATCH_COUNT


class PulledQueue(ABC):
    """``run`` runs in a task from the moment the queue is ours until ``drop``. All offsets are queue offsets."""

    def __init__(self, queue: MessageQueue, subscription: SubscriptionData, shared: Pulling):
        self.queue = queue
        self._shared = shared
        self._puller = self._puller_of(subscription)
        self._process_queue: ProcessQueue | None = None  # None until the start is known
        self._stored_offset: int | None = None
        self._reset_to: int | None = None
        self._scope = anyio.CancelScope()
        self._pull_scope = anyio.CancelScope()
        self._room = ParkingLot()
        self._last_pull_s = self._last_settled_s = anyio.current_time()  # as in Java: a new queue is not stuck

    def _puller_of(self, subscription: SubscriptionData) -> Puller:
        shared = self._shared
        return Puller(shared.client, shared.group, self.queue, subscription, shared.is_lite, shared.pull_batch_size)

    @abstractmethod
    def _keep(self, messages: list[ReceivedMessage], process_queue: ProcessQueue) -> None:
        """Takes the messages of a pull, to be settled in ``process_queue``."""

    async def run(self) -> None:
        """Returns after ``drop``."""
        with self._scope:
            await self._find_start()
            while True:
                pulled: PullResult | None = None
                with anyio.CancelScope() as self._pull_scope:
                    if self._reset_to is None:  # a reset may have come while the last pull was processed
                        pulled = await self._pull()
                if self._reset_to is not None:
                    wanted, self._reset_to = self._reset_to, None
                    await self._go_on_at(wanted)
                elif pulled is not None:
                    await self._take(pulled)

    def stop_pulling(self) -> None:
        """Stops pulling. Kept messages may still be settled."""
        self._scope.cancel()

    def drop(self) -> None:
        """Stops pulling. The queue's next owner settles the messages that were not settled here."""
        self._scope.cancel()
        if self._process_queue is not None:
            self._process_queue.is_dropped = True

    def reset(self, queue_offset: int) -> None:
        """Continues at another offset, whatever the task is doing."""
        self._reset_to = queue_offset
        self._pull_scope.cancel()

    @property
    def committed_offset(self) -> int | None:
        """The offset of the first message that is not settled; None until it is known."""
        return self._process_queue.committed_offset if self._process_queue is not None else None

    def info(self, now_s: float, now_ms: int) -> ProcessQueueInfo:
        """For ``consumerStatus``. ``now_s`` is ``anyio.current_time()``, ``now_ms`` the same moment since the epoch."""
        process_queue = self._process_queue or ProcessQueue(0)
        return ProcessQueueInfo(
            cached_msg_count=process_queue.count,
            cached_msg_max_offset=process_queue.newest_offset,
            cached_msg_min_offset=process_queue.oldest_offset,
            cached_msg_size_in_mib=process_queue.size_bytes >> 20,
            commit_offset=process_queue.committed_offset,
            droped=process_queue.is_dropped,
            last_consume_timestamp=now_ms - int((now_s - self._last_settled_s) * 1000),
            last_pull_timestamp=now_ms - int((now_s - self._last_pull_s) * 1000),
        )

    def _begin_at(self, queue_offset: int) -> None:
        """Forgets the pulled messages. They may be settled late, but that moves no offset."""
        if self._process_queue is not None:
            self._process_queue.is_dropped = True
        self._process_queue = ProcessQueue(queue_offset)

    async def _go_on_at(self, queue_offset: int) -> None:
        self._begin_at(queue_offset)

    async def _find_start(self) -> None:
        """Begins at the group's offset, or where a group without one begins, unless a reset comes first."""
        while self._reset_to is None:
            try:
                stored = await self._shared.offsets.read(self.queue)
                begin = stored
                if begin is None:
                    begin = await first_offset(self._shared.client, self.queue, self._shared.start)
            except RocketMQError as error:
                log.warning("start offset not known yet queue=%s error=%s", self.queue, error)
                await self._puller.pause()
            else:
                self._stored_offset = stored
                self._begin_at(begin)
                return

    async def _pull(self) -> PullResult | None:
        """The result of one pull, once there is room for more messages; None if it failed."""
        kept = self._process_queue
        assert kept is not None
        while (
            kept.count >= self._shared.kept_max_count or kept.size_bytes >= QUEUE_MAX_BYTES or kept.span >= SPAN_MAX
        ):  # fmt: skip
            await self._room.park()
        committed = kept.committed_offset if self._shared.commits_in_pulls else None
        started_s = self._last_pull_s = anyio.current_time()
        result = await self._puller.pull(kept.scanned_to, committed)
        if result is not None and result.messages:
            now_s = anyio.current_time()
            self._shared.rates.pulled(self.queue.topic, now_s, len(result.messages), (now_s - started_s) * 1000)
        return result

    async def _take(self, result: PullResult) -> None:
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("offset moved queue=%s to=%d", self.queue, result.next_begin_offset)
            await self._go_on_at(result.next_begin_offset)
            await anyio.sleep(AFTER_ILLEGAL_OFFSET_S)
            return
        assert self._process_queue is not None
        received = self._puller.wanted(result)
        self._process_queue.put([message.stored for message in received], result.next_begin_offset)
        if received:
            self._keep(received, self._process_queue)

    def _settled(self) -> None:
        self._last_settled_s = anyio.current_time()
        if self._room:
            self._room.unpark()


class DeliveredQueue(PulledQueue):
    """A queue whose messages go to a listener. With ``leases`` None no locks are needed, because messages are consumed
    in no order or by every member."""

    def __init__(
        self,
        queue: MessageQueue,
        subscription: SubscriptionData,
        shared: Pulling,
        deliveries: Deliveries,
        leases: QueueLeases | None,
        on_begin: Callable[[], None],
    ):
        """``on_begin`` is called when the start is known."""
        super().__init__(queue, subscription, shared)
        self._deliveries = deliveries
        self._leases = leases
        self._on_begin = on_begin

    async def commit(self) -> None:
        """Stores the committed offset, unless it is stored already. A failure is logged and tried again next time."""
        offset = self.committed_offset
        if offset is None or offset == self._stored_offset:
            return
        try:
            await self._shared.offsets.write(self.queue, offset)
        except RocketMQError as error:
            log.warning("commit failed queue=%s committed_offset=%d error=%s", self.queue, offset, error)
        else:
            self._stored_offset = offset

    def info(self, now_s: float, now_ms: int) -> ProcessQueueInfo:
        info = super().info(now_s, now_ms)
        if self._leases is not None:
            locked_s = self._leases.locked_s(self.queue)
            info.last_lock_timestamp = 0 if locked_s is None else now_ms - int((now_s - locked_s) * 1000)
            info.locked = self._leases.is_held(self.queue)
        return info

    def _begin_at(self, queue_offset: int) -> None:
        super()._begin_at(queue_offset)
        self._on_begin()

    async def _go_on_at(self, queue_offset: int) -> None:
        await super()._go_on_at(queue_offset)
        await self.commit()

    def _keep(self, messages: list[ReceivedMessage], process_queue: ProcessQueue) -> None:
        for message in messages:
            self._deliveries.offer(Delivery(message, process_queue, self._settled))


class PolledQueue(PulledQueue):
    """A queue whose messages are polled. A message that was polled is settled."""

    def __init__(
        self, queue: MessageQueue, subscription: SubscriptionData, shared: Pulling, on_pulled: Callable[[], None]
    ):
        """``on_pulled`` is called when there are messages to poll."""
        super().__init__(queue, subscription, shared)
        self.is_paused = False
        self.done_offset: int | None = None
        """The offset that auto-commit stores. Everything before it was polled before the last poll began."""

        self._on_pulled = on_pulled
        self._kept: deque[ReceivedMessage] = deque()

    @property
    def position(self) -> int | None:
        """The offset of the next message that a poll returns; None until it is known."""
        return self.committed_offset if self._reset_to is None else self._reset_to

    def info(self, now_s: float, now_ms: int) -> ProcessQueueInfo:
        info = super().info(now_s, now_ms)
        info.commit_offset = self.done_offset or 0
        return info

    def drop(self) -> None:
        super().drop()
        self._kept.clear()

    def reset(self, queue_offset: int) -> None:
        """Makes the next poll return the message at ``queue_offset``."""
        super().reset(queue_offset)
        self.done_offset = queue_offset
        self._kept.clear()

    def take_subscription(self, subscription: SubscriptionData) -> None:
        """From the next poll on, messages are of this subscription."""
        if self._puller.is_for(subscription):
            return
        self._puller = self._puller_of(subscription)
        done_offset = self.done_offset
        if (position := self.position) is not None:
            self.reset(position)  # what is kept was chosen by the one before
            self.done_offset = done_offset

    def poll(self, max_count: int) -> list[ReceivedMessage]:
        """The available messages, without waiting."""
        if self.is_paused or not self._kept:
            return []
        assert self._process_queue is not None
        taken = [self._kept.popleft() for _ in range(min(max_count, len(self._kept)))]
        for message in taken:
            self._process_queue.settle(message.stored)
        self._settled()
        return taken

    def _begin_at(self, queue_offset: int) -> None:
        super()._begin_at(queue_offset)
        self._kept.clear()

    def _keep(self, messages: list[ReceivedMessage], process_queue: ProcessQueue) -> None:
        self._kept += messages
        self._on_pulled()
