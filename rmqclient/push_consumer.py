"""A member of a consumer group: it gets its share of the queues, hands their messages to the listener, and says how far
the group is (``DefaultMQPushConsumerImpl`` and ``RebalanceImpl``, 5.5.0). Clustering and concurrent, not ordered."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import trio

from rmqclient.broker_questions import BrokerQuestions
from rmqclient.client import Client
from rmqclient.deliveries import Deliveries
from rmqclient.lifetime import Lifetime
from rmqclient.listener import Listener
from rmqclient.message import ReceivedMessage
from rmqclient.queue_consumer import ConsumeFrom, QueueConsumer, Start
from rmqclient.rates import Rates
from rmqclient.routes import MASTER_ID
from rmqproto import fastjson, headers
from rmqproto.allocate import Strategy, averagely
from rmqproto.bodies import (
    CheckClientRequest,
    ConsumerData,
    ConsumerIds,
    Heartbeat,
    MessageQueue,
    SubscriptionData,
)
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RefusedError, RequestTimeoutError, RocketMQError, UsageError
from rmqproto.names import group_problem, retry_topic
from rmqproto.signing import Credentials
from rmqproto.subscription import ALL, SQL92, TAG, Sql92, parse_tags, subscription_data

log = logging.getLogger(__name__)

REBALANCE_INTERVAL_S = 20.0
REBALANCE_RETRY_S = 0.5
"""After a rebalance that could not be done; doubles up to REBALANCE_INTERVAL_S while that goes on."""

COMMIT_INTERVAL_S = 5.0
FINISH_TIMEOUT_S = 3.0
"""What a listener gets to finish what it has begun when the consumer leaves."""

CONCURRENCY = 20
UNSETTLED_MAX_COUNT = 1000
CONSUME_TIMEOUT_S = 15 * 60.0
CONSUME_FROM_BEFORE_MS = 30 * 60 * 1000

RECONSUME_BY_GROUP = -1
"""How often a message comes again is the group's own setting at the broker (16 times unless changed)."""


class PushConsumer(Lifetime):
    """``async with PushConsumer("127.0.0.1:9876", "group", {"Topic": "TagA || TagB"}, listener):`` consumes until the
    body ends. Then listeners get FINISH_TIMEOUT_S to finish, offsets are stored, and the queues go to others at once.

    Every message is consumed at least once: again after a crash, and where a queue changes hands while the listener
    has it.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        subscriptions: Mapping[str, str | Sql92],
        listener: Listener,
        *,
        credentials: Credentials | None = None,
        consume_from: ConsumeFrom | str = ConsumeFrom.LAST_OFFSET,
        consume_from_ms: int | None = None,
        concurrency: int = CONCURRENCY,
        max_in_flight: int = UNSETTLED_MAX_COUNT,
        max_reconsume_times: int = RECONSUME_BY_GROUP,
        consume_timeout_s: float = CONSUME_TIMEOUT_S,
        allocate: Strategy = averagely,
    ):
        """``subscriptions``: topic to tag expression, or to ``Sql92("a > 5")``. ``consume_from_ms``, ms since the
        epoch, is for TIMESTAMP (default: half an hour ago). ``concurrency``: messages that the listener has at once;
        ``max_in_flight``: those pulled and unsettled, a queue. After ``consume_timeout_s`` the listener is cancelled
        and the message comes again. All members of a group must subscribe alike and allocate alike.

        UsageError for what cannot be.
        """
        if problem := group_problem(group):
            raise UsageError(problem)
        self.group = group
        now_ms = time.time_ns() // 1_000_000
        self.subscriptions = _subscriptions(group, subscriptions, version=now_ms)
        self._start_at = Start(ConsumeFrom(consume_from), consume_from_ms or now_ms - CONSUME_FROM_BEFORE_MS)
        self._max_in_flight = max_in_flight
        self._max_reconsume_times = max_reconsume_times
        self._allocate = allocate
        self._rates = Rates()
        self._deliveries = Deliveries(listener, concurrency, consume_timeout_s, self._send_back, self._rates)
        self._owned: dict[MessageQueue, QueueConsumer] = {}
        self._changed = trio.Event()
        self._rebalance_wanted = trio.Event()
        self._membership_scope = trio.CancelScope()
        questions = BrokerQuestions(
            group=group,
            subscriptions=self.subscriptions,
            owned=self._owned,
            deliveries=self._deliveries,
            rates=self._rates,
            namesrv_addrs=namesrv_addrs,
            concurrency=concurrency,
            rebalance_soon=self._rebalance_soon,
        )
        self._client = Client(
            namesrv_addrs,
            credentials,
            self._heartbeat,
            handlers=questions.handlers,
            on_route_change=self._rebalance_soon,
        )

    @property
    def client_id(self) -> str:
        return self._client.client_id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues of subscribed topics that are ours now."""
        retry = retry_topic(self.group)
        return frozenset(queue for queue in self._owned if queue.topic != retry)

    async def wait_assigned(self, timeout_s: float = 30.0) -> frozenset[MessageQueue]:
        """Waits until at least one queue is ours. RequestTimeoutError."""
        with trio.move_on_after(timeout_s):
            while not self.assignment:
                await self._changed.wait()
            return self.assignment
        raise RequestTimeoutError(f"group {self.group} gave us no queue within {timeout_s:g} s")

    # --- lifetime ----------------------------------------------------------------------------------------------------

    async def _start(self, nursery: trio.Nursery) -> None:
        """ConnectError or RequestTimeoutError where no name server answers; a topic that does not exist yet is waited
        for. RefusedError for an SQL92 expression that a broker does not take."""
        await self._client.start(nursery)
        for topic in self.subscriptions:
            try:
                await self._client.routes.queues(topic)
            except RefusedError as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
        await self._check_expressions()
        await self._client.heartbeat_to(self._client.routes.broker_addresses())
        nursery.start_soon(self._deliveries.run)
        nursery.start_soon(self._be_member, nursery)

    async def _be_member(self, nursery: trio.Nursery) -> None:
        with self._membership_scope:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(self._commit_forever)
                await self._rebalance_forever(nursery)

    async def _leave(self) -> None:
        self._membership_scope.cancel()
        for owner in self._owned.values():
            owner.stop_pulling()
        with trio.move_on_after(FINISH_TIMEOUT_S):
            await self._deliveries.drain()
        await self._commit_all()
        await self._client.unregister(consumer_group=self.group)

    async def _check_expressions(self) -> None:
        """Brokers pass over an SQL92 expression that does not parse, and deliver everything: so one is asked first."""
        for subscription in self.subscriptions.values():
            addresses = self._client.routes.broker_addresses()
            if subscription.expression_type == TAG or not addresses:
                continue
            request = CheckClientRequest(client_id=self.client_id, group=self.group, subscription_data=subscription)
            await self._client.connections.request(
                min(addresses), RequestCode.CHECK_CLIENT_CONFIG, body=fastjson.dumps(request)
            )

    def _heartbeat(self, client_id: str) -> Heartbeat:
        consumer = ConsumerData(
            group_name=self.group,
            consume_from_where=self._start_at.consume_from.value,
            subscription_data_set=list(self.subscriptions.values()),
        )
        return Heartbeat(client_id=client_id, consumer_data_set=[consumer])

    # --- whose queues ------------------------------------------------------------------------------------------------

    def _rebalance_soon(self) -> None:
        self._rebalance_wanted.set()

    async def _rebalance_forever(self, nursery: trio.Nursery) -> None:
        retry_s = REBALANCE_RETRY_S
        while True:
            self._rebalance_wanted = trio.Event()
            is_complete = all([await self._rebalance(topic, nursery) for topic in self.subscriptions])
            retry_s = REBALANCE_RETRY_S if is_complete else min(retry_s * 2, REBALANCE_INTERVAL_S)
            with trio.move_on_after(REBALANCE_INTERVAL_S if is_complete else retry_s):
                await self._rebalance_wanted.wait()

    async def _rebalance(self, topic: str, nursery: trio.Nursery) -> bool:
        """Takes and gives away queues of one topic. Whether it could be done: without a member list that holds us,
        everything stays as it is."""
        try:
            readable = (await self._client.routes.queues(topic)).readable
            members = await self._members(readable)
        except RocketMQError as error:
            log.info("rebalance put off topic=%s error=%s", topic, error)
            return False
        if self.client_id not in members:
            await self._client.heartbeat_to(self._client.routes.broker_addresses())
            return False
        ours = set(self._allocate(self.client_id, readable, members))
        for queue in [queue for queue in self._owned if queue.topic == topic and queue not in ours]:
            await self._give_away(queue)
        for queue in sorted(ours - self._owned.keys()):
            self._take_over(queue, nursery)
        return True

    async def _members(self, readable: tuple[MessageQueue, ...]) -> list[str]:
        """Client ids of the group, from a broker that has the topic."""
        header = headers.ConsumerGroupHeader(consumer_group=self.group)
        if not readable:
            return [self.client_id]
        address = self._client.routes.replica(readable[0].broker_name, MASTER_ID)
        answer = await self._client.connections.request(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        return fastjson.loads_untrusted(answer.body, ConsumerIds).consumer_id_list

    def _take_over(self, queue: MessageQueue, nursery: trio.Nursery) -> None:
        owner = QueueConsumer(
            queue,
            self.group,
            self.subscriptions[queue.topic],
            self._start_at,
            self._max_in_flight,
            self._client,
            self._deliveries,
            self._rates,
        )
        self._owned[queue] = owner
        nursery.start_soon(owner.run)
        self._assignment_changed()
        log.info("queue taken over group=%s queue=%s", self.group, queue)

    async def _give_away(self, queue: MessageQueue) -> None:
        owner = self._owned.pop(queue)
        owner.drop()
        self._assignment_changed()
        log.info("queue given away group=%s queue=%s committed_offset=%s", self.group, queue, owner.committed_offset)
        await owner.commit()

    def _assignment_changed(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # --- how far -----------------------------------------------------------------------------------------------------

    async def _commit_forever(self) -> None:
        while True:
            await trio.sleep(COMMIT_INTERVAL_S)
            await self._commit_all()

    async def _commit_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for owner in self._owned.values():
                nursery.start_soon(owner.commit)

    async def _send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """To the broker that stores it, which delivers it again, or gives it up to the dead-letter queue."""
        limit = None if self._max_reconsume_times == RECONSUME_BY_GROUP else self._max_reconsume_times
        header = headers.SendBackHeader(
            offset=message.stored.log_offset,
            group=self.group,
            delay_level=delay_level,
            origin_msg_id=message.offset_message_id,
            origin_topic=message.stored.topic,
            max_reconsume_times=limit,
            broker_name=message.broker_name,
        )
        address = self._client.routes.replica(message.broker_name, MASTER_ID)
        await self._client.connections.request(address, RequestCode.CONSUMER_SEND_MSG_BACK, header)


def _subscriptions(group: str, wanted: Mapping[str, str | Sql92], *, version: int) -> dict[str, SubscriptionData]:
    """What heartbeats say, by topic: with the group's retry topic, over which failed messages come again."""
    if not wanted:
        raise UsageError("a consumer needs at least one topic")
    found = {}
    for topic, expression in wanted.items():
        if isinstance(expression, Sql92):
            data = subscription_data(topic, expression.text, version=version, expression_type=SQL92)
        elif parse_tags(expression).tags == frozenset():
            raise UsageError(f"{expression!r} names no tag")
        else:
            data = subscription_data(topic, expression, version=version)
        found[topic] = data
    retry = retry_topic(group)
    return {**found, retry: subscription_data(retry, ALL, version=version)}
