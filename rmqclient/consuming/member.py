"""What all members of a group have in common, whether they call a listener or are polled: who they are to brokers, what
they subscribe to, and what they tell of themselves (``MQClientInstance`` and ``ClientRemotingProcessor``, 5.5.0)."""

from __future__ import annotations

import ssl
import time
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from rmqclient.consuming.pulled_queues import PulledQueue
from rmqclient.consuming.rates import Rates
from rmqclient.consuming.rebalance import Rebalance
from rmqclient.consuming.start import Start
from rmqclient.consuming.subscribing import MessageModel
from rmqclient.lifetime import Lifetime
from rmqclient.remoting.channels import BrokerRequestHandler
from rmqclient.remoting.client_instance import ClientInstance
from rmqclient.threads import Blocking, called
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import CONSUME_PASSIVELY, ConsumerData, Heartbeat, SubscriptionData
from rmqproto.bodies.statistics import ConsumerRunningInfo, running_properties
from rmqproto.codes import RequestCode
from rmqproto.errors import UsageError
from rmqproto.names import group_problem
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.fastjson import ObjectMap

Q = TypeVar("Q", bound=PulledQueue)
N = TypeVar("N", bound="NonMember")


class AnyMember(Lifetime, Generic[Q]):
    """``_pulled`` holds our queues. A subclass makes ``_rebalance``, which changes them."""

    _consume_type = CONSUME_PASSIVELY
    _is_orderly = False
    _rebalance: Rebalance

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        subscriptions: dict[str, SubscriptionData],
        *,
        start_at: Start,
        message_model: MessageModel,
        credentials: Credentials | None,
        tls: ssl.SSLContext | None,
        instance_name: str | None,
    ):
        """UsageError for invalid arguments."""
        if problem := group_problem(group):
            raise UsageError(problem)
        self.group = group
        self.subscriptions = subscriptions
        self._start_at = start_at
        self._message_model = message_model
        self._pulled: dict[MessageQueue, Q] = {}
        self._rates = Rates(subscriptions)
        self._namesrv_addrs = namesrv_addrs
        self._started_ms = time.time_ns() // 1_000_000
        self._client = ClientInstance(
            namesrv_addrs,
            credentials,
            self._heartbeat,
            tls=tls,
            instance_name=message_model.instance_name(instance_name),
            handlers=self._broker_request_handlers(),
            on_route_change=self._rebalance_soon,
        )

    @property
    def client_id(self) -> str:
        return self._client.client_id

    @property
    def _is_broadcasting(self) -> bool:
        return self._message_model is MessageModel.BROADCASTING

    def _join(self, nursery: TaskGroup) -> None:
        """Takes part in rebalances until ``_membership_scope`` is cancelled."""
        self._membership_scope = anyio.CancelScope()
        nursery.start_soon(self._be_member)

    async def _be_member(self) -> None:
        with self._membership_scope:
            await self._rebalance.run()

    def _rebalance_soon(self) -> None:
        self._rebalance.soon()

    def _heartbeat(self, client_id: str) -> Heartbeat:
        consumer = ConsumerData(
            group_name=self.group,
            consume_type=self._consume_type,
            consume_from_where=self._start_at.consume_from.value,
            message_model=self._message_model.value,
            subscription_data_set=list(self.subscriptions.values()),
        )
        return Heartbeat(client_id=client_id, consumer_data_set=[consumer])

    # --- brokers' requests -------------------------------------------------------------------------------------------

    def _broker_request_handlers(self) -> dict[int, BrokerRequestHandler]:
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
        }

    async def _members_changed(self, request: Command) -> bytes:
        """40: a member joined or left."""
        self._rebalance.soon()
        return b""

    async def _running_info(self, request: Command) -> bytes:
        """307: what this consumer is doing, for an operator, and for members that share queues by STICKY."""
        return fastjson.dumps(self._info(anyio.current_time(), time.time_ns() // 1_000_000))

    def _info(self, now_s: float, now_ms: int) -> ConsumerRunningInfo:
        """``now_s`` is ``anyio.current_time()``, ``now_ms`` the same moment since the epoch."""
        return ConsumerRunningInfo(
            mq_table=ObjectMap((queue, owner.info(now_s, now_ms)) for queue, owner in self._pulled.items()),
            properties=running_properties(
                self._consume_type, self._started_ms, self._namesrv_addrs, is_orderly=self._is_orderly
            ),
            subscription_set=list(self.subscriptions.values()),
        )


# --- consumers that are no members: no broker knows them, and members do not see them --------------------------------


class NonMember(Lifetime):
    def __init__(self, namesrv_addrs: str, group: str, credentials: Credentials | None, tls: ssl.SSLContext | None):
        """UsageError for invalid addresses or an invalid group."""
        if problem := group_problem(group):
            raise UsageError(problem)
        self.group = group
        self._client = ClientInstance(namesrv_addrs, credentials, tls=tls)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues. RefusedError with code 17 for a topic that does not exist."""
        return list((await self._client.routes.queues(topic)).readable)

    async def light_queues(self, topic: str, name: str) -> list[MessageQueue]:
        """The light queue of that name (``%LMQ%...``) on each broker of the topic whose messages name it."""
        return await self._client.routes.light_queues(topic, name)

    async def _start(self, nursery: TaskGroup) -> None:
        await self._client.start(nursery)

    async def _leave(self) -> None:
        """Does nothing: no broker knows this client."""


class BlockingNonMember(Blocking[N]):
    queues = called(NonMember.queues)
    light_queues = called(NonMember.light_queues)
