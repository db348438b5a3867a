"""Which queues of the subscribed topics are ours. That is determined again when the group or a route changes, and
periodically (``RebalanceImpl`` and ``RebalanceService``, 5.5.0): every member of the group computes it by the same
strategy from the members that a broker lists."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

import anyio

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.allocate import Strategy, sticky
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerIds
from rmqproto.bodies.statistics import ConsumerRunningInfo
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.consuming import ConsumerGroupHeader, RunningInfoHeader
from rmqproto.wire import fastjson

log = logging.getLogger(__name__)

REBALANCE_INTERVAL_S = 20.0
REBALANCE_RETRY_S = 0.5
"""The pause after a failed rebalance; doubles up to REBALANCE_INTERVAL_S while rebalances fail."""

Ours = Callable[[str, tuple[MessageQueue, ...]], Awaitable[set[MessageQueue] | None]]
"""``await ours(topic, readable)``: those of a topic's readable queues that are ours. None if that is not known; nothing
changes then."""

Take = Callable[[str, set[MessageQueue]], Awaitable[bool]]
"""``await take(topic, queues)``: makes exactly these queues of the topic ours. Returns whether all could be taken."""


class Rebalance:
    """``run`` runs in a task until it is cancelled."""

    def __init__(self, client: ClientInstance, topics: Collection[str], ours: Ours, take: Take):
        """``topics`` belong to the caller, who may change them."""
        self._client = client
        self._topics = topics
        self._ours = ours
        self._take = take
        self._wanted = anyio.Event()

    def soon(self) -> None:
        """Rebalances soon, because something has changed."""
        self._wanted.set()

    async def run(self) -> None:
        retry_s = REBALANCE_RETRY_S
        while True:
            self._wanted = anyio.Event()
            is_complete = all([await self._rebalance(topic) for topic in list(self._topics)])
            retry_s = REBALANCE_RETRY_S if is_complete else min(retry_s * 2, REBALANCE_INTERVAL_S)
            with anyio.move_on_after(REBALANCE_INTERVAL_S if is_complete else retry_s):
                await self._wanted.wait()

    async def _rebalance(self, topic: str) -> bool:
        """Whether the rebalance was done. Without a member list that includes us nothing changes."""
        try:
            readable = (await self._client.routes.queues(topic)).readable
            ours = await self._ours(topic, readable)
        except RocketMQError as error:
            log.info("rebalance put off topic=%s error=%s", topic, error)
            return False
        return ours is not None and await self._take(topic, ours)


# --- allocation ------------------------------------------------------------------------------------------------------


class Sticky:
    """Used instead of a strategy: shares as even as those of ``averagely``, with the fewest queues moved.

    At every rebalance each member asks the others, through a broker, which queues they have (307). All members of the
    group must be clients of this library, or of another one that answers this request.
    """


STICKY: Final = Sticky()


class Allocation:
    """With ``allocate`` None every queue is ours (broadcasting)."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        allocate: Strategy | Sticky | None,
        owned: Mapping[MessageQueue, object],
    ):
        """``owned`` belongs to the caller, who may change it."""
        self._client = client
        self._group = group
        self._allocate = allocate
        self._owned = owned

    async def ours(self, topic: str, readable: tuple[MessageQueue, ...]) -> set[MessageQueue] | None:
        """Our queues of a topic; None if no broker lists us. RocketMQError if they cannot be determined now."""
        if self._allocate is None or not readable:
            return set(readable)
        broker_addr = self._client.routes.replica_of(readable[0], MASTER_ID)
        members = await self._members(broker_addr)
        if self._client.client_id not in members:
            await self._client.heartbeat_to(self._client.routes.broker_addresses())
            return None
        if not isinstance(self._allocate, Sticky):
            return set(self._allocate(self._client.client_id, readable, members))
        held = {member: await self._held_by(member, topic, broker_addr) for member in members}
        return set(sticky(self._client.client_id, readable, members, held))

    async def _members(self, broker_addr: str) -> list[str]:
        """Client ids of the group, from a broker that has the topic."""
        header = ConsumerGroupHeader(consumer_group=self._group)
        answer = await self._client.channels.request(broker_addr, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        return fastjson.loads_untrusted(answer.body, ConsumerIds).consumer_id_list

    async def _held_by(self, member: str, topic: str, broker_addr: str) -> list[MessageQueue]:
        if member == self._client.client_id:
            held: Collection[MessageQueue] = self._owned
        else:
            header = RunningInfoHeader(consumer_group=self._group, client_id=member)
            code = RequestCode.GET_CONSUMER_RUNNING_INFO
            answer = await self._client.channels.request(broker_addr, code, header)
            held = fastjson.loads_untrusted(answer.body, ConsumerRunningInfo).mq_table
        return [queue for queue in held if queue.topic == topic]
