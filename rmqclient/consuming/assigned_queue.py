"""One queue of a lite pull consumer: the messages that were pulled and not polled yet (``AssignedMessageQueue`` and
``DefaultLitePullConsumerImpl.PullTaskImpl``, 5.5.0)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio

from rmqclient.consuming.offset_store import OffsetStore
from rmqclient.consuming.puller import QUEUE_MAX_BYTES, SPAN_MAX, Puller
from rmqclient.consuming.start import Start, first_offset
from rmqclient.message import ReceivedMessage
from rmqclient.pull import PullResult, PullStatus
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.bodies.statistics import ProcessQueueInfo
from rmqproto.errors import RocketMQError

log = logging.getLogger(__name__)

KEPT_MAX_COUNT = 1000
"""Messages kept per queue (``pullThresholdForQueue``)."""

AFTER_ILLEGAL_OFFSET_S = 0.2
"""The pause if a broker reports every offset as illegal."""


@dataclass(frozen=True, slots=True)
class LitePulling:
    """The part that the queues of one consumer share. ``on_pulled`` is called when a queue has messages to poll."""

    group: str
    client: ClientInstance
    start: Start
    offsets: OffsetStore
    on_pulled: Callable[[], None]


class AssignedQueue:
    """``run`` runs in a task until ``drop``. All offsets are queue offsets."""

    def __init__(self, queue: MessageQueue, subscription: SubscriptionData, shared: LitePulling):
        self.queue = queue
        self.is_paused = False
        self.done_offset: int | None = None
        """The offset that auto-commit stores. Everything before it was polled before the last poll began."""

        self._shared = shared
        self._puller = Puller(shared.client, shared.group, queue, subscription, is_lite=True)
        self._kept: deque[ReceivedMessage] = deque()
        self._kept_bytes = 0
        self._scanned_to: int | None = None  # None until the start is known
        self._seek_to: int | None = None
        self._scope = trio.CancelScope()
        self._pull_scope = trio.CancelScope()
        self._room = trio.lowlevel.ParkingLot()

    @property
    def position(self) -> int | None:
        """The offset of the next message that a poll returns; None until it is known."""
        if self._seek_to is not None:
            return self._seek_to
        return self._kept[0].queue_offset if self._kept else self._scanned_to

    def info(self) -> ProcessQueueInfo:
        """For ``consumerStatus``."""
        return ProcessQueueInfo(
            cached_msg_count=len(self._kept),
            cached_msg_max_offset=self._kept[-1].queue_offset if self._kept else 0,
            cached_msg_min_offset=self._kept[0].queue_offset if self._kept else 0,
            cached_msg_size_in_mib=self._kept_bytes >> 20,
            commit_offset=self.done_offset or 0,
        )

    async def run(self) -> None:
        with self._scope:
            await self._find_start()
            while True:
                pulled: PullResult | None = None
                with trio.CancelScope() as self._pull_scope:
                    while self._is_full():
                        await self._room.park()
                    assert self._scanned_to is not None
                    if self._seek_to is None:
                        pulled = await self._puller.pull(self._scanned_to, None)
                if self._seek_to is not None:
                    self._begin_at(self._seek_to)
                elif pulled is not None:
                    await self._keep(pulled)

    def drop(self) -> None:
        self._scope.cancel()
        self._kept.clear()

    def seek(self, queue_offset: int) -> None:
        """Makes the next poll return the message at ``queue_offset``."""
        self._seek_to = self.done_offset = queue_offset
        self._kept.clear()
        self._pull_scope.cancel()

    def poll(self, max_count: int) -> list[ReceivedMessage]:
        """The available messages, without waiting."""
        if self.is_paused:
            return []
        taken = [self._kept.popleft() for _ in range(min(max_count, len(self._kept)))]
        self._kept_bytes -= sum(message.stored.size_bytes for message in taken)
        self._room.unpark()
        return taken

    def _is_full(self) -> bool:
        if not self._kept:
            return False
        span = self._kept[-1].queue_offset - self._kept[0].queue_offset
        return len(self._kept) >= KEPT_MAX_COUNT or self._kept_bytes >= QUEUE_MAX_BYTES or span >= SPAN_MAX

    def _begin_at(self, queue_offset: int) -> None:
        self._kept.clear()
        self._kept_bytes = 0
        self._scanned_to, self._seek_to = queue_offset, None

    async def _find_start(self) -> None:
        while self._seek_to is None:
            try:
                stored = await self._shared.offsets.read(self.queue)
                if stored is None:
                    stored = await first_offset(self._shared.client, self.queue, self._shared.start)
            except RocketMQError as error:
                log.warning("start offset not known yet queue=%s error=%s", self.queue, error)
                await self._puller.pause()
            else:
                if self._seek_to is None:
                    self._begin_at(stored)
                    return
        self._begin_at(self._seek_to)

    async def _keep(self, result: PullResult) -> None:
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("offset moved queue=%s to=%d", self.queue, result.next_begin_offset)
            self._begin_at(result.next_begin_offset)
            await trio.sleep(AFTER_ILLEGAL_OFFSET_S)
            return
        self._scanned_to = result.next_begin_offset
        received = self._puller.wanted(result)
        self._kept += received
        self._kept_bytes += sum(message.stored.size_bytes for message in received)
        if received:
            self._shared.on_pulled()
