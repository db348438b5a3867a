"""A member of a consumer group: it gets its share of the queues, hands their messages to the listener, and commits the
group's offsets (``DefaultMQPushConsumerImpl``, 5.5.0). It consumes concurrently or in order, and a message goes to one
member or to all."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import trio

from rmqclient.consuming.allocation import Allocation, Sticky
from rmqclient.consuming.deliveries import ConcurrentDeliveries, Deliveries
from rmqclient.consuming.failed_messages import FailedMessages
from rmqclient.consuming.group_member import (
    CONCURRENCY,
    CONSUME_TIMEOUT_S,
    FINISH_TIMEOUT_S,
    RECONSUME_BY_GROUP,
    UNSETTLED_MAX_COUNT,
    GroupMember,
)
from rmqclient.consuming.message_model import MessageModel
from rmqclient.consuming.offset_store import offset_store
from rmqclient.consuming.orderly import OrderlyDeliveries
from rmqclient.consuming.pulled_queues import PulledQueues
from rmqclient.consuming.queue_consumer import Consumption
from rmqclient.consuming.queue_lease import QueueLeases
from rmqclient.consuming.rebalance import Rebalance
from rmqclient.consuming.start import ConsumeFrom, Start
from rmqclient.listener import Listener
from rmqproto.allocate import Strategy, averagely
from rmqproto.bodies.base import MessageQueue
from rmqproto.filters.subscription import Sql92
from rmqproto.wire.credentials import Credentials


class PushConsumer(GroupMember):
    """``async with PushConsumer("127.0.0.1:9876", "group", {"Topic": "TagA || TagB"}, listener):`` consumes until the
    body ends. Then the listener gets FINISH_TIMEOUT_S to finish, offsets are stored, and other members get the queues
    at once.

    Every message is consumed at least once. It comes again after a crash, or if its queue goes to another member while
    the listener has it. In order, a queue changes hands only between two messages.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        subscriptions: Mapping[str, str | Sql92],
        listener: Listener,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        consume_from: ConsumeFrom | str = ConsumeFrom.LAST_OFFSET,
        consume_from_ms: int | None = None,
        concurrency: int = CONCURRENCY,
        max_in_flight: int = UNSETTLED_MAX_COUNT,
        max_reconsume_times: int = RECONSUME_BY_GROUP,
        consume_timeout_s: float = CONSUME_TIMEOUT_S,
        allocate: Strategy | Sticky = averagely,
        orderly: bool = False,
        message_model: MessageModel | str = MessageModel.CLUSTERING,
        instance_name: str | None = None,
        offset_dir: Path | None = None,
        trace: bool | str = False,
    ):
        """``subscriptions``: topic to tag expression, or to ``Sql92("a > 5")``. ``consume_from_ms``, in ms since the
        epoch, is for TIMESTAMP (default: half an hour ago). ``concurrency``: messages that the listener has at once;
        ``max_in_flight``: pulled and unsettled messages per queue. After ``consume_timeout_s`` the listener is
        cancelled and the message comes again. All members of a group must subscribe alike and allocate alike.

        ``orderly``: the messages of a queue are consumed one after the other. A message that fails comes again before
        the next, after ``suspend(seconds)`` or a second. BROADCASTING: every member gets every message, a message that
        fails is dropped, and offsets are kept in ``offset_dir``/CLIENT_ID/GROUP/offsets.json (default
        ``~/.rocketmq_offsets``). ``instance_name`` is the second half of the client id. It is "DEFAULT" when
        broadcasting, so two members on one machine need two names.

        ``trace``: writes records of each message to RMQ_SYS_TRACE_TOPIC, or to the topic named.

        UsageError for invalid arguments.
        """
        super().__init__(
            namesrv_addrs,
            group,
            subscriptions,
            listener,
            credentials=credentials,
            tls=tls,
            start_at=Start.of(consume_from, consume_from_ms),
            message_model=MessageModel.of(message_model),
            concurrency=concurrency,
            consume_timeout_s=consume_timeout_s,
            orderly=orderly,
            instance_name=instance_name,
            trace=trace,
        )
        self._offset_dir = offset_dir
        self._max_in_flight = max_in_flight
        self._leases = QueueLeases(self._client, group) if orderly and not self._is_broadcasting else None
        limit = None if max_reconsume_times == RECONSUME_BY_GROUP else max_reconsume_times
        self._deliveries = self._make_deliveries(concurrency, orderly, limit)
        allocation = Allocation(self._client, group, None if self._is_broadcasting else allocate, self._pulled)
        self._rebalance = Rebalance(self._client, self.subscriptions, allocation.ours, self._take)

    def _make_deliveries(self, concurrency: int, orderly: bool, limit: int | None) -> Deliveries:
        failed = FailedMessages(self._client, self.group, limit)
        if orderly:
            give_up = failed.drop if self._is_broadcasting else failed.give_up
            return OrderlyDeliveries(self._call, concurrency, self._leases, give_up, limit)
        return ConcurrentDeliveries(self._call, concurrency, failed.drop if self._is_broadcasting else failed.send_back)

    # --- lifetime ----------------------------------------------------------------------------------------------------

    async def _start(self, nursery: trio.Nursery) -> None:
        await self._client.start(nursery)
        offsets = offset_store(self._client, self.group, self._message_model, self._offset_dir)
        shared = Consumption(
            self.group,
            self._client,
            self._start_at,
            offsets,
            self._deliveries,
            self._rates,
            self._leases,
            self._max_in_flight,
            commits_in_pulls=not self._is_broadcasting,
        )
        self._queues = PulledQueues(self._pulled, self.subscriptions, shared, nursery, self._assignment_changed)
        await self._introduce()
        await nursery.start(self._deliveries.run)
        if self._leases is not None:
            nursery.start_soon(self._leases.renew_forever)
        if self._traces is not None:
            nursery.start_soon(self._traces.run, self._client)
        nursery.start_soon(self._be_member)

    async def _be_member(self) -> None:
        with self._membership_scope:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(self._queues.commit_forever)
                await self._rebalance.run()

    async def _take(self, topic: str, ours: set[MessageQueue]) -> bool:
        return await self._queues.take(topic, ours)

    async def _leave(self) -> None:
        self._membership_scope.cancel()
        self._queues.stop_pulling()
        with trio.move_on_after(FINISH_TIMEOUT_S):
            await self._deliveries.drain()
        await self._queues.commit_all()
        if self._leases is not None:
            await self._leases.unlock_all()
        if self._traces is not None:
            await self._traces.flush(self._client)
        await self._client.unregister(consumer_group=self.group)
