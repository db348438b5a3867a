"""The common part of consumers that are members of a group: subscriptions, heartbeats that announce them, a listener,
answers to brokers' requests, and the way in and out (``DefaultMQPushConsumerImpl``, 5.5.0). A subclass opens the source
that brings the messages."""

from __future__ import annotations

import ssl
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol, TypedDict

import anyio
from anyio.abc import TaskGroup

from rmqclient.consuming.broker_questions import BrokerQuestions
from rmqclient.consuming.deliveries import Deliveries, ListenerCall
from rmqclient.consuming.failed_messages import FailedMessages
from rmqclient.consuming.popping.popped_queues import QueuePopper
from rmqclient.consuming.pulled_queues import DeliveredQueue
from rmqclient.consuming.rates import Rates
from rmqclient.consuming.rebalance import Rebalance
from rmqclient.consuming.start import Start
from rmqclient.consuming.subscribing import MessageModel, check_expressions, subscriptions_of
from rmqclient.lifetime import Lifetime, P
from rmqclient.listener import BatchListener, Listener
from rmqclient.parking import ParkingLot
from rmqclient.remoting.channels import BrokerRequestHandler
from rmqclient.remoting.client_instance import ClientInstance
from rmqclient.threads import Blocking, called, called_in_loop
from rmqclient.tracing import Traces
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData, Heartbeat
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RequestTimeoutError, UsageError
from rmqproto.filters.subscription import Sql92
from rmqproto.names import group_problem, retry_topic
from rmqproto.wire.credentials import Credentials

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


class GroupMember(Lifetime):
    """``_pulled`` and ``_popped`` hold our queues. Code that changes them calls ``_assignment_changed``."""

    _rebalance: Rebalance

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
        if problem := group_problem(group):
            raise UsageError(problem)
        self.group = group
        self._start_at = start_at
        self._message_model = message_model
        self._is_broadcasting = message_model is MessageModel.BROADCASTING
        self.subscriptions = subscriptions_of(group, subscriptions, with_retry=not self._is_broadcasting)
        self._pulled: dict[MessageQueue, DeliveredQueue] = {}
        self._popped: dict[MessageQueue, QueuePopper] = {}
        self._rates = Rates(self.subscriptions)
        self._traces = Traces.wanted(group, trace)
        self._call = ListenerCall(listener, concurrency, consume_timeout_s, self._rates, self._traces, batch_max_count)
        self._changed = ParkingLot()
        questions = BrokerQuestions(
            group=group,
            subscriptions=self.subscriptions,
            pulled=self._pulled,
            popped=self._popped,
            call=self._call,
            rates=self._rates,
            namesrv_addrs=namesrv_addrs,
            is_orderly=orderly,
            rebalance_soon=self._rebalance_soon,
        )
        self._client = ClientInstance(
            namesrv_addrs,
            credentials,
            self._heartbeat,
            tls=tls,
            instance_name=message_model.instance_name(instance_name),
            handlers={**questions.handlers, **self._broker_request_handlers()},
            on_route_change=self._rebalance_soon,
        )
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
        self._membership_scope = anyio.CancelScope()
        self._pulled.clear()  # those that it had when it was left are taken again
        self._popped.clear()
        await self._client.start(nursery)
        self._source = self._open()
        await self._introduce()
        await self._source.start(nursery)
        await nursery.start(self._source.deliveries.run)
        if self._traces is not None:
            nursery.start_soon(self._traces.run, self._client)
        nursery.start_soon(self._be_member)

    async def _be_member(self) -> None:
        with self._membership_scope:
            await self._rebalance.run()

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
    def client_id(self) -> str:
        return self._client.client_id

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

    def _broker_request_handlers(self) -> dict[int, BrokerRequestHandler]:
        """Handlers for further requests of brokers, by request code."""
        return {}

    def _heartbeat(self, client_id: str) -> Heartbeat:
        consumer = ConsumerData(
            group_name=self.group,
            consume_from_where=self._start_at.consume_from.value,
            message_model=self._message_model.value,
            subscription_data_set=list(self.subscriptions.values()),
        )
        return Heartbeat(client_id=client_id, consumer_data_set=[consumer])

    def _rebalance_soon(self) -> None:
        self._rebalance.soon()

    def _assignment_changed(self) -> None:
        self._changed.unpark_all()


class BlockingMember(Blocking[GroupMember]):
    """A consumer that calls its listener: a plain function, in ``concurrency`` threads, or an async one."""

    wait_assigned = called(GroupMember.wait_assigned)
    set_concurrency = called_in_loop(GroupMember.set_concurrency)
