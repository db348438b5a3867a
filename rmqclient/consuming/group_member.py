"""The common part of members that call a listener: the way in and out, and the answers to brokers' requests
(``DefaultMQPushConsumerImpl`` and ``ClientRemotingProcessor``, 5.5.0). A subclass opens the source that brings the
messages."""

from __future__ import annotations

import ssl
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol, TypedDict

import anyio
from anyio.abc import TaskGroup

from rmqclient.consuming.deliveries import Deliveries, ListenerCall
from rmqclient.consuming.failed_messages import FailedMessages
from rmqclient.consuming.member import AnyMember
from rmqclient.consuming.popping.popped_queues import QueuePopper
from rmqclient.consuming.pulled_queues import DeliveredQueue
from rmqclient.consuming.start import Start
from rmqclient.consuming.subscribing import MessageModel, check_expressions, subscriptions_of
from rmqclient.lifetime import P
from rmqclient.listener import BatchListener, Listener
from rmqclient.message import ReceivedMessage
from rmqclient.parking import ParkingLot
from rmqclient.remoting.channels import BrokerRequestHandler
from rmqclient.threads import Blocking, called, called_in_loop
from rmqclient.tracing import Traces
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeDirectlyResult, ConsumerRunningInfo, ConsumerStatus, ResetOffsets
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RefusedError, RequestTimeoutError
from rmqproto.filters.subscription import Sql92
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import ConsumeDirectlyHeader, TopicGroupHeader
from rmqproto.message.record import decode_record_untrusted
from rmqproto.names import retry_topic
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.fastjson import ObjectMap

FINISH_TIMEOUT_S = 3.0
"""The time for the listener to finish its messages when the consumer leaves."""

CONCURRENCY = 20
UNSETTLED_MAX_COUNT = 1000
CONSUME_TIMEOUT_S = 15 * 60.0

RECONSUME_BY_GROUP = -1
"""The group's own setting at the broker limits redeliveries (16 unless changed); a consumer in order then never gives
up."""


class MemberOptions(TypedDict, total=False):
    """The options of every member; ``GroupMember`` has their defaults."""

    credentials: Credentials | None
    """Signs the requests."""

    tls: ssl.SSLContext | None
    concurrency: int
    """Messages that the listener has at once; in order: queues, or lite topics. ``set_concurrency`` changes it."""

    max_reconsume_times: int
    """A message that failed more often is a dead letter."""

    consume_timeout_s: float
    """After that time the listener is cancelled, and the message comes again."""

    instance_name: str | None
    """The second half of the client id. Without it the id is unique, or when broadcasting ends with "DEFAULT"."""

    trace: bool | str
    """Writes records of each message to RMQ_SYS_TRACE_TOPIC, or to the topic named."""


CONCURRENCY_PROPERTIES = "PROP_THREADPOOL_CORE_SIZE", "consumeThreadMin", "consumeThreadMax"
"""Java's names: its pool stays at the core size, because its queue is never full."""


class GroupSource(Protocol):
    """Brings the messages of our queues to the deliveries."""

    @property
    def deliveries(self) -> Deliveries: ...

    async def start(self, nursery: TaskGroup) -> None:
        """Its tasks run in ``nursery``, also those of queues that are taken later."""
        ...

    async def take(self, topic: str, ours: set[MessageQueue]) -> bool:
        """Takes over and gives away queues of one topic. Returns whether all of ``ours`` are taken."""
        ...

    def stop(self) -> None:
        """Brings no more messages. The listener may still settle those that it has."""
        ...

    async def close(self) -> None:
        """Stores how far we came, and gives back what was not consumed. It never fails."""
        ...


class GroupMember(AnyMember[DeliveredQueue]):
    """``_pulled`` and ``_popped`` hold our queues. Code that changes them calls ``_assignment_changed``."""

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        subscriptions: Mapping[str, str | Sql92],
        listener: Listener | BatchListener,
        *,
        start_at: Start,
        batch_max_count: int | None = None,
        message_model: MessageModel = MessageModel.CLUSTERING,
        orderly: bool = False,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        concurrency: int = CONCURRENCY,
        max_reconsume_times: int = RECONSUME_BY_GROUP,
        consume_timeout_s: float = CONSUME_TIMEOUT_S,
        instance_name: str | None = None,
        trace: bool | str = False,
    ):
        """UsageError for invalid arguments."""
        super().__init__(
            namesrv_addrs,
            group,
            subscriptions_of(group, subscriptions, with_retry=message_model is MessageModel.CLUSTERING),
            start_at=start_at,
            message_model=message_model,
            credentials=credentials,
            tls=tls,
            instance_name=instance_name,
        )
        self._is_orderly = orderly
        self._popped: dict[MessageQueue, QueuePopper] = {}
        self._traces = Traces.wanted(group, trace)
        self._call = ListenerCall(listener, concurrency, consume_timeout_s, self._rates, self._traces, batch_max_count)
        self._changed = ParkingLot()
        self._reconsume_limit = None if max_reconsume_times == RECONSUME_BY_GROUP else max_reconsume_times
        self._failed = FailedMessages(self._client, group, self._reconsume_limit)

    @classmethod
    def blocking(cls: Callable[P, GroupMember], *args: P.args, **kwargs: P.kwargs) -> BlockingMember:
        """The same for plain threads: ``with PushConsumer.blocking(...) as consumer:``."""
        return BlockingMember(cls(*args, **kwargs))

    @abstractmethod
    def _open(self) -> GroupSource:
        """The source, now that the client id is known. StorageError for local offsets that cannot be read."""

    # --- lifetime ----------------------------------------------------------------------------------------------------

    async def _start(self, nursery: TaskGroup) -> None:
        """ConnectError or RequestTimeoutError if no name server answers. A topic need not exist yet. RefusedError for
        an SQL92 expression that a broker does not accept. StorageError for local offsets that cannot be read."""
        self._pulled.clear()  # those that it had when it was left are taken again
        self._popped.clear()
        await self._client.start(nursery)
        self._source = self._open()
        await self._introduce()
        await self._source.start(nursery)
        await nursery.start(self._source.deliveries.run)
        if self._traces is not None:
            nursery.start_soon(self._traces.run, self._client)
        self._join(nursery)

    async def _take(self, topic: str, ours: set[MessageQueue]) -> bool:
        return await self._source.take(topic, ours)

    async def _leave(self) -> None:
        self._membership_scope.cancel()
        self._source.stop()
        with anyio.move_on_after(FINISH_TIMEOUT_S):
            await self._source.deliveries.drain()
        await self._source.close()
        if self._traces is not None:
            await self._traces.flush(self._client)
        await self._unregister()

    async def _unregister(self) -> None:
        await self._client.unregister(consumer_group=self.group)

    @property
    def concurrency(self) -> int:
        """Messages, or in order queues, that the listener may have at once."""
        return self._call.concurrency

    def set_concurrency(self, count: int) -> None:
        """Changes it at once, while the consumer runs or before (``updateCorePoolSize`` in Java). Calls of the listener
        that are too many now go on to their end. UsageError for less than 1."""
        self._call.concurrency = count

    # --- whose queues ------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues of subscribed topics that are ours now."""
        retry = retry_topic(self.group)
        return frozenset(queue for queue in (*self._pulled, *self._popped) if queue.topic != retry)

    async def wait_assigned(self, timeout_s: float = 30.0) -> frozenset[MessageQueue]:
        """Waits until at least one queue is ours and the start of each pulled queue is known. The group then gets every
        message sent from now on, wherever it begins. RequestTimeoutError."""
        with anyio.move_on_after(timeout_s):
            while not (ours := self.assignment) or any(
                self._pulled[queue].committed_offset is None for queue in ours & self._pulled.keys()
            ):
                await self._changed.park()
            return ours
        raise RequestTimeoutError(f"group {self.group} gave us no queue within {timeout_s:g} s")

    async def _introduce(self) -> None:
        """Learns the routes of the topics, and announces us to their brokers. Errors as ``_start``."""
        for topic in self.subscriptions:
            try:
                await self._client.routes.queues(topic)
            except RefusedError as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
        await check_expressions(self._client, self.group, self.subscriptions.values())
        await self._client.heartbeat_to(self._client.routes.broker_addresses())

    def _assignment_changed(self) -> None:
        self._changed.unpark_all()

    # --- brokers' requests, mostly on behalf of an operator -----------------------------------------------------------

    def _broker_request_handlers(self) -> dict[int, BrokerRequestHandler]:
        return {
            **super()._broker_request_handlers(),
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def _info(self, now_s: float, now_ms: int) -> ConsumerRunningInfo:
        info = super()._info(now_s, now_ms)
        info.mq_pop_table = ObjectMap((queue, popper.info(now_s, now_ms)) for queue, popper in self._popped.items())
        info.properties |= dict.fromkeys(CONCURRENCY_PROPERTIES, str(self._call.concurrency))
        info.status_table = self._rates.status_table(now_s)
        return info

    async def _reset_offsets(self, request: Command) -> bytes:
        """220: resets offsets, from brokers that leave a reset to the clients. Each queue is reset by its owner."""
        for queue, queue_offset in fastjson.loads_untrusted(request.body, ResetOffsets).offset_table.items():
            owner = self._pulled.get(queue)
            if owner is not None:
                owner.reset(queue_offset)
        return b""

    async def _status(self, request: Command) -> bytes:
        """221: the committed offset of each queue of one topic."""
        topic = from_ext(request.ext, TopicGroupHeader).topic
        offsets: ObjectMap[MessageQueue, int] = ObjectMap(
            (queue, owner.committed_offset)
            for queue, owner in self._pulled.items()
            if queue.topic == topic and owner.committed_offset is not None
        )
        return fastjson.dumps(ConsumerStatus(message_queue_table=offsets))

    async def _consume_directly(self, request: Command) -> bytes:
        """309: consumes one message now, independently of offsets."""
        header = from_ext(request.ext, ConsumeDirectlyHeader)
        message = ReceivedMessage(decode_record_untrusted(request.body), header.broker_name or "")
        started_s = anyio.current_time()
        remark = None
        try:
            status = await self._call(message)
            result = "CR_SUCCESS" if status.is_success else "CR_LATER"
        except Exception as error:  # the edge of the application's code: the operator gets the error
            result, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
        spent_ms = int((anyio.current_time() - started_s) * 1000)
        return fastjson.dumps(ConsumeDirectlyResult(consume_result=result, remark=remark, spent_time_mills=spent_ms))


class BlockingMember(Blocking[GroupMember]):
    """A consumer that calls its listener: a plain function, in ``concurrency`` threads, or an async one."""

    wait_assigned = called(GroupMember.wait_assigned)
    set_concurrency = called_in_loop(GroupMember.set_concurrency)
