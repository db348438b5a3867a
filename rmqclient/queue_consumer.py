"""One queue of a push consumer: where it starts, one pull after the other, and the offset that the group has reached
(``DefaultMQPushConsumerImpl.pullMessage`` and ``RebalancePushImpl``, 5.5.0)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

import trio

from rmqclient.client import Client
from rmqclient.deliveries import Deliveries, Delivery
from rmqclient.message import ReceivedMessage
from rmqclient.process_queue import ProcessQueue
from rmqclient.pull import (
    PULL_ANSWER_CODES,
    PULL_BATCH_COUNT,
    PullResult,
    PullStatus,
    pull_header,
    pull_result_untrusted,
)
from rmqclient.rates import Rates
from rmqclient.routes import MASTER_ID
from rmqproto import headers
from rmqproto.bodies import MessageQueue, ProcessQueueInfo, SubscriptionData
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError, RefusedError, RequestTimeoutError, RocketMQError
from rmqproto.headers import from_ext
from rmqproto.names import RETRY_PREFIX
from rmqproto.subscription import EVERYTHING, TAG, TagFilter, parse_tags

log = logging.getLogger(__name__)

SUSPEND_MS = 15_000
"""How long a broker may hold a pull for which it has nothing."""

PULL_TIMEOUT_S = 30.0
AFTER_FAILURE_S = 0.1
AFTER_FAILURES_S = 3.0
"""The pause after a pull that failed doubles from the first to the second of these while it goes on: a broker that is
restarted is found again soon, and one that is gone is not pestered."""

AFTER_FLOW_CONTROL_S = 0.02
AFTER_ILLEGAL_OFFSET_S = 0.2
"""Against a broker that finds every offset illegal."""

SPAN_MAX = 2000
"""How far the newest message pulled may be ahead of the oldest unsettled one (``consumeConcurrentlyMaxSpan``)."""

UNSETTLED_MAX_BYTES = 100 * 1024 * 1024
"""A queue (``pullThresholdSizeForQueue``)."""


class ConsumeFrom(Enum):
    """Where a group begins in a queue in which it has no offset. A broker that still has a queue's first messages in
    memory gives a new group all of them, whatever is said here."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Start:
    """``timestamp_ms`` counts for TIMESTAMP alone."""

    consume_from: ConsumeFrom
    timestamp_ms: int


class QueueConsumer:
    """``run`` runs in a task from the moment the queue is ours until ``drop``."""

    def __init__(
        self,
        queue: MessageQueue,
        group: str,
        subscription: SubscriptionData,
        start: Start,
        unsettled_max_count: int,
        client: Client,
        deliveries: Deliveries,
        rates: Rates,
    ):
        self.queue = queue
        self._group = group
        self._subscription = subscription
        self._filter: TagFilter = (
            parse_tags(subscription.sub_string) if subscription.expression_type == TAG else EVERYTHING
        )
        self._start = start
        self._unsettled_max_count = unsettled_max_count
        self._client = client
        self._deliveries = deliveries
        self._rates = rates
        self._process_queue: ProcessQueue | None = None  # None until it is known where to start
        self._stored_offset: int | None = None
        self._reset_to: int | None = None
        self._broker_id = MASTER_ID
        self._scope = trio.CancelScope()
        self._pull_scope = trio.CancelScope()
        self._room = trio.lowlevel.ParkingLot()
        self._pause_s = AFTER_FAILURE_S
        self._last_pull_s = self._last_settled_s = 0.0

    async def run(self) -> None:
        """Returns after ``drop``."""
        with self._scope:
            self._begin_at(await self._start_offset())
            while True:
                pulled: PullResult | None = None
                with trio.CancelScope() as self._pull_scope:
                    await self._wait_for_room()
                    pulled = await self._pull()
                if self._reset_to is not None:
                    self._begin_at(self._reset_to)
                    self._reset_to = None
                    await self.commit()
                elif pulled is not None:
                    await self._take(pulled)

    def drop(self) -> None:
        """Stops pulling; what the listener still has of this queue is settled by its next owner. ``commit`` may
        follow."""
        self._scope.cancel()
        if self._process_queue is not None:
            self._process_queue.is_dropped = True

    def stop_pulling(self) -> None:
        """What the listener has may still be settled."""
        self._scope.cancel()

    def reset(self, queue_offset: int) -> None:
        """Goes on at another offset as soon as the task runs."""
        self._reset_to = queue_offset
        self._pull_scope.cancel()

    @property
    def committed_offset(self) -> int | None:
        """How far the group is in this queue; None until that is known."""
        return self._process_queue.committed_offset if self._process_queue is not None else None

    async def commit(self) -> None:
        """Stores the committed offset at the broker, unless it is there already. A failure is said and left to the next
        time."""
        offset = self.committed_offset
        if offset is None or offset == self._stored_offset:
            return
        header = headers.UpdateConsumerOffsetHeader(
            consumer_group=self._group, topic=self.queue.topic, queue_id=self.queue.queue_id, commit_offset=offset
        )
        try:
            address = self._client.routes.replica(self.queue.broker_name, MASTER_ID)
            await self._client.connections.request(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        except RocketMQError as error:
            log.warning("commit failed queue=%s committed_offset=%d error=%s", self.queue, offset, error)
        else:
            self._stored_offset = offset

    def info(self, now_s: float, now_ms: int) -> ProcessQueueInfo:
        """For ``consumerStatus``. ``now_s`` is ``trio.current_time()``, ``now_ms`` the same moment since the epoch."""

        def wall_ms(time_s: float) -> int:
            return now_ms - int((now_s - time_s) * 1000) if time_s else 0

        process_queue = self._process_queue or ProcessQueue(0)
        return ProcessQueueInfo(
            cached_msg_count=process_queue.count,
            cached_msg_max_offset=process_queue.newest_offset,
            cached_msg_min_offset=process_queue.oldest_offset,
            cached_msg_size_in_mib=process_queue.size_bytes >> 20,
            commit_offset=process_queue.committed_offset,
            droped=process_queue.is_dropped,
            last_consume_timestamp=wall_ms(self._last_settled_s),
            last_pull_timestamp=wall_ms(self._last_pull_s),
        )

    # --- where to start ----------------------------------------------------------------------------------------------

    def _begin_at(self, queue_offset: int) -> None:
        """Forgets what was pulled so far: the listener may finish it, but that moves no offset."""
        if self._process_queue is not None:
            self._process_queue.is_dropped = True
        self._process_queue = ProcessQueue(queue_offset)

    async def _start_offset(self) -> int:
        while True:
            try:
                stored = await self._ask_stored_offset()
                if stored is None:
                    return await self._first_offset()
                self._stored_offset = stored
                return stored
            except RocketMQError as error:
                log.warning("start offset not known yet queue=%s error=%s", self.queue, error)
                await self._pause()

    async def _ask_stored_offset(self) -> int | None:
        header = headers.QueryConsumerOffsetHeader(
            consumer_group=self._group, topic=self.queue.topic, queue_id=self.queue.queue_id
        )
        accept = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        address = self._client.routes.replica(self.queue.broker_name, MASTER_ID)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        answer = await self._client.connections.request(address, code, header, accept=accept)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        offset = from_ext(answer.ext, headers.OffsetAnswer).offset
        return offset if offset >= 0 else None

    async def _first_offset(self) -> int:
        """Where a group without an offset begins. A retry topic is read from its first message, because what is in it
        was this group's already; by time, from its end, as Apache's clients do."""
        is_retry = self.queue.topic.startswith(RETRY_PREFIX)
        match self._start.consume_from:
            case ConsumeFrom.FIRST_OFFSET:
                return 0
            case ConsumeFrom.LAST_OFFSET:
                return 0 if is_retry else await self._max_offset()
            case ConsumeFrom.TIMESTAMP:
                return await (self._max_offset() if is_retry else self._offset_at(self._start.timestamp_ms))

    async def _max_offset(self) -> int:
        header = headers.QueueHeader(topic=self.queue.topic, queue_id=self.queue.queue_id)
        return await self._ask_offset(RequestCode.GET_MAX_OFFSET, header)

    async def _offset_at(self, timestamp_ms: int) -> int:
        header = headers.SearchOffsetHeader(
            topic=self.queue.topic, queue_id=self.queue.queue_id, timestamp=timestamp_ms
        )
        return await self._ask_offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def _ask_offset(self, code: RequestCode, header: headers.Header) -> int:
        address = self._client.routes.replica(self.queue.broker_name, MASTER_ID)
        answer = await self._client.connections.request(address, code, header)
        return max(0, from_ext(answer.ext, headers.OffsetAnswer).offset)

    # --- pulling -----------------------------------------------------------------------------------------------------

    async def _wait_for_room(self) -> None:
        process_queue = self._process_queue
        assert process_queue is not None
        while (
            process_queue.count >= self._unsettled_max_count
            or process_queue.size_bytes >= UNSETTLED_MAX_BYTES
            or process_queue.span >= SPAN_MAX
        ):
            await self._room.park()

    async def _pull(self) -> PullResult | None:
        """One pull; None where it failed, after the pause that follows from how."""
        assert self._process_queue is not None
        committed = self._process_queue.committed_offset
        header = pull_header(
            self._group,
            self.queue,
            self._process_queue.scanned_to,
            max_count=PULL_BATCH_COUNT,
            subscription_version=self._subscription.sub_version,
            expression_type=self._subscription.expression_type or TAG,
            committed_offset=committed if committed > 0 and self._broker_id == MASTER_ID else None,
            suspend_ms=SUSPEND_MS,
        )
        started_s = self._last_pull_s = trio.current_time()
        try:
            address = self._client.routes.replica(self.queue.broker_name, self._broker_id)
            answer = await self._client.connections.request(
                address, RequestCode.PULL_MESSAGE, header, timeout_s=PULL_TIMEOUT_S, accept=PULL_ANSWER_CODES
            )
            result = pull_result_untrusted(answer)
        except RocketMQError as error:
            await self._pause_after(error)
            return None
        self._pause_s = AFTER_FAILURE_S
        now_s = trio.current_time()
        if result.messages:
            self._rates.pulled(self.queue.topic, now_s, len(result.messages), (now_s - started_s) * 1000)
        return result

    async def _pause_after(self, error: RocketMQError) -> None:
        if isinstance(error, RefusedError) and error.code == ResponseCode.FLOW_CONTROL:
            await trio.sleep(AFTER_FLOW_CONTROL_S)
            return
        log.warning("pull failed queue=%s error=%s", self.queue, error)
        if isinstance(error, ConnectError | RequestTimeoutError):
            self._client.routes.refresh_soon()
            self._broker_id = MASTER_ID
        await self._pause()

    async def _pause(self) -> None:
        await trio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, AFTER_FAILURES_S)

    async def _take(self, result: PullResult) -> None:
        assert self._process_queue is not None
        self._broker_id = result.suggested_broker_id
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("offset moved queue=%s to=%d", self.queue, result.next_begin_offset)
            self._begin_at(result.next_begin_offset)
            await self.commit()
            await trio.sleep(AFTER_ILLEGAL_OFFSET_S)
            return
        received = [ReceivedMessage(message, self.queue.broker_name) for message in result.messages]
        if self._filter.tags is not None:
            received = [message for message in received if self._filter.matches(message.tags)]
        self._process_queue.put([message.stored for message in received], result.next_begin_offset)
        for message in received:
            self._deliveries.offer(Delivery(message, self._process_queue, self._settled))

    def _settled(self) -> None:
        self._last_settled_s = trio.current_time()
        if self._room:
            self._room.unpark()
