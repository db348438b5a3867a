"""The lite topics that a consumer subscribes to. Brokers are told each change at once. They are told the whole list
periodically, and if they may have forgotten us (``LiteSubscriptionManager`` of RocketMQ 5's clients)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

import anyio

from rmqclient.remoting.client_instance import ClientInstance
from rmqclient.sending import check_lite_topic
from rmqproto.bodies.lite import LiteSubscriptionChange, LiteSubscriptionCtl, OffsetOption
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError
from rmqproto.wire import fastjson

TELL_INTERVAL_S = 30.0
"""Apache's brokers forget a client if they are not told for three minutes."""


class LiteTopics:
    """``names`` are lite topics below ``topic``."""

    def __init__(self, client: ClientInstance, group: str, topic: str, names: Iterable[str]):
        """UsageError for a name that no lite topic can have."""
        self.names = set(names)
        for name in self.names:
            check_lite_topic(name)
        self._client = client
        self._group = group
        self._topic = topic
        self._versions = itertools.count(time.time_ns() // 1_000_000)
        self._turn = anyio.Lock()
        """A later message to a broker must not overtake an earlier one."""
        self._told_s: dict[str, float] = {}  # when each broker was told the whole list

    async def add(self, name: str, start: OffsetOption | None) -> None:
        """Subscribes. UsageError for an invalid name; RocketMQError if a broker does not accept it, though others may
        have."""
        check_lite_topic(name)
        async with self._turn:
            self.names.add(name)
            await self._tell_all("PARTIAL_ADD", [name], start)

    async def discard(self, name: str) -> None:
        """Unsubscribes. RocketMQError if a broker cannot be told."""
        async with self._turn:
            self.names.discard(name)
            await self._tell_all("PARTIAL_REMOVE", [name])

    async def leave(self) -> None:
        async with self._turn:
            await self._tell_all("COMPLETE_REMOVE", [])

    async def be_known(self, broker_name: str) -> None:
        """Tells a broker the whole list, unless it was told recently. RocketMQError."""
        now_s = anyio.current_time()
        if now_s >= self._told_s.get(broker_name, -TELL_INTERVAL_S) + TELL_INTERVAL_S:
            async with self._turn:
                await self._tell(broker_name, "COMPLETE_ADD", sorted(self.names))
            self._told_s[broker_name] = now_s

    def forgotten(self, broker_name: str) -> None:
        """Notes that a request to the broker failed: it may have lost our connection, and with it our subscriptions."""
        self._told_s.pop(broker_name, None)

    async def _tell_all(self, action: str, names: list[str], start: OffsetOption | None = None) -> None:
        failures: list[RocketMQError] = []

        async def tell(broker_name: str) -> None:
            try:
                await self._tell(broker_name, action, names, start)
            except RocketMQError as error:
                failures.append(error)

        queues = (await self._client.routes.queues(self._topic)).readable
        async with anyio.create_task_group() as nursery:
            for broker_name in {queue.broker_name for queue in queues}:
                nursery.start_soon(tell, broker_name)
        if failures:
            raise failures[0]

    async def _tell(self, broker_name: str, action: str, names: list[str], start: OffsetOption | None = None) -> None:
        change = LiteSubscriptionChange(
            action=action,
            client_id=self._client.client_id,
            group=self._group,
            lite_topic_set=names,
            offset_option=start,
            topic=self._topic,
            version=next(self._versions),
        )
        address, body = self._client.routes.master(broker_name), LiteSubscriptionCtl(subscription_set=[change])
        await self._client.channels.request(address, RequestCode.LITE_SUBSCRIPTION_CTL, body=fastjson.dumps(body))
