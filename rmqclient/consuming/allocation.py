"""Allocation of a topic's queues: every member of the group computes it by the same strategy from the members that a
broker lists (``RebalanceImpl.rebalanceByTopic``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.allocate import Strategy, sticky
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerIds
from rmqproto.bodies.statistics import ConsumerRunningInfo
from rmqproto.codes import RequestCode
from rmqproto.ha import MASTER_ID
from rmqproto.headers.client_calls import RunningInfoHeader
from rmqproto.headers.consuming import ConsumerGroupHeader
from rmqproto.wire import fastjson


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
