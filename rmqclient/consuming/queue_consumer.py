"""One queue of a push consumer: its start, one pull after the other, and the group's committed offset
(``DefaultMQPushConsumerImpl.pullMessage`` and ``RebalancePushImpl``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import trio

from rmqclient.consuming.deliveries import Deliveries, Delivery
from rmqclient.consuming.offset_store import OffsetStore
from rmqclient.consuming.process_queue import ProcessQueue
from rmqclient.consuming.puller import QUEUE_MAX_BYTES, SPAN_MAX, Puller
from rmqclient.consuming.queue_lease import QueueLeases
from rmqclient.consuming.rates import Rates
from rmqclient.consuming.start import Start, first_offset
from rmqclient.pull import PullResult, PullStatus
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.bodies.statistics import ProcessQueueInfo
from rmqproto.errors import RocketMQError

log = logging.getLogger(__name__)

AFTER_ILLEGAL_OFFSET_S = 0.2
"""The pause if a broker reports every offset as illegal."""


@dataclass(frozen=True, slots=True)
class Consumption:
    """The part that the queues of one consumer share. With ``leases`` None no locks are needed, because messages are
    consumed in no order or by every member. With ``commits_in_pulls`` each pull carries the offset, and the broker
    stores it."""

    group: str
    client: ClientInstance
    start: Start
    offsets: OffsetStore
    deliveries: Deliveries
    rates: Rates
    leases: QueueLeases | None
    unsettled_max_count: int
    commits_in_pulls: bool


class QueueConsumer:
    """``run`` runs in a task from the moment the queue is ours until ``drop``."""

    def __init__(
        self, queue: MessageQueue, subscription: SubscriptionData, shared: Consumption, on_begin: Callable[[], None]
    ):
        """``on_begin`` is called when the start is known."""
        self.queue = queue
        self._on_begin = on_begin
        self._shared = shared
        self._puller = Puller(shared.client, shared.group, queue, subscription, is_lite=False)
        self._process_queue: ProcessQueue | None = None  # None until the start is known
        self._stored_offset: int | None = None
        self._reset_to: int | None = None
        self._scope = trio.CancelScope()
        self._pull_scope = trio.CancelScope()
        self._room = trio.lowlevel.ParkingLot()
        self._last_pull_s = self._last_settled_s = trio.current_time()  # as in Java: a new queue is not stuck

    async def run(self) -> None:
        """Returns after ``drop``."""
        with self._scope:
            self._begin_at(await self._start_offset())
            self._on_begin()
            while True:
                pulled: PullResult | None = None
                with trio.CancelScope() as self._pull_scope:
                    if self._reset_to is None:  # a reset may have come while the last pull was processed
                        await self._wait_for_room()
                        pulled = await self._pull()
                if self._reset_to is not None:
                    self._begin_at(self._reset_to)
                    self._reset_to = None
                    await self.commit()
                elif pulled is not None:
                    await self._take(pulled)

    def drop(self) -> None:
        """Stops pulling. The queue's next owner settles the messages that the listener still has. ``commit`` may
        follow."""
        self._scope.cancel()
        if self._process_queue is not None:
            self._process_queue.is_dropped = True

    def stop_pulling(self) -> None:
        """Stops pulling. The listener may still settle its messages."""
        self._scope.cancel()

    def reset(self, queue_offset: int) -> None:
        """Continues at another offset, whatever the task is doing."""
        self._reset_to = queue_offset
        self._pull_scope.cancel()

    @property
    def committed_offset(self) -> int | None:
        """The group's offset in this queue; None until it is known."""
        return self._process_queue.committed_offset if self._process_queue is not None else None

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
        """For ``consumerStatus``. ``now_s`` is ``trio.current_time()``, ``now_ms`` the same moment since the epoch."""

        def wall_ms(time_s: float) -> int:
            return now_ms - int((now_s - time_s) * 1000)

        process_queue = self._process_queue or ProcessQueue(0)
        leases = self._shared.leases
        locked_s = None if leases is None else leases.locked_s(self.queue)
        return ProcessQueueInfo(
            cached_msg_count=process_queue.count,
            cached_msg_max_offset=process_queue.newest_offset,
            cached_msg_min_offset=process_queue.oldest_offset,
            cached_msg_size_in_mib=process_queue.size_bytes >> 20,
            commit_offset=process_queue.committed_offset,
            droped=process_queue.is_dropped,
            last_consume_timestamp=wall_ms(self._last_settled_s),
            last_lock_timestamp=0 if locked_s is None else wall_ms(locked_s),
            last_pull_timestamp=wall_ms(self._last_pull_s),
            locked=leases is not None and leases.is_held(self.queue),
        )

    # --- pulling -----------------------------------------------------------------------------------------------------

    def _begin_at(self, queue_offset: int) -> None:
        """Forgets the pulled messages. The listener may finish them, but that moves no offset."""
        if self._process_queue is not None:
            self._process_queue.is_dropped = True
        self._process_queue = ProcessQueue(queue_offset)

    async def _start_offset(self) -> int:
        while True:
            try:
                stored = await self._shared.offsets.read(self.queue)
                if stored is None:
                    return await first_offset(self._shared.client, self.queue, self._shared.start)
                self._stored_offset = stored
                return stored
            except RocketMQError as error:
                log.warning("start offset not known yet queue=%s error=%s", self.queue, error)
                await self._puller.pause()

    async def _wait_for_room(self) -> None:
        process_queue = self._process_queue
        assert process_queue is not None
        while (
            process_queue.count >= self._shared.unsettled_max_count
            or process_queue.size_bytes >= QUEUE_MAX_BYTES
            or process_queue.span >= SPAN_MAX
        ):
            await self._room.park()

    async def _pull(self) -> PullResult | None:
        """The result of one pull; None if it failed."""
        assert self._process_queue is not None
        committed = self._process_queue.committed_offset if self._shared.commits_in_pulls else None
        started_s = self._last_pull_s = trio.current_time()
        result = await self._puller.pull(self._process_queue.scanned_to, committed)
        if result is not None and result.messages:
            now_s = trio.current_time()
            self._shared.rates.pulled(self.queue.topic, now_s, len(result.messages), (now_s - started_s) * 1000)
        return result

    async def _take(self, result: PullResult) -> None:
        assert self._process_queue is not None
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("offset moved queue=%s to=%d", self.queue, result.next_begin_offset)
            self._begin_at(result.next_begin_offset)
            await self.commit()
            await trio.sleep(AFTER_ILLEGAL_OFFSET_S)
            return
        received = self._puller.wanted(result)
        self._process_queue.put([message.stored for message in received], result.next_begin_offset)
        for message in received:
            self._shared.deliveries.offer(Delivery(message, self._process_queue, self._settled))

    def _settled(self) -> None:
        self._last_settled_s = trio.current_time()
        if self._room:
            self._room.unpark()
