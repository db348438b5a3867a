"""Allocation of a topic's queues by a broker, which also says whether they are popped or pulled
(``RebalanceImpl.getRebalanceResultFromBroker``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Collection

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.popping import AssignmentRequest, Assignments, QueueAssignment, RequestMode
from rmqproto.codes import RequestCode
from rmqproto.errors import UsageError
from rmqproto.ha import MASTER_ID
from rmqproto.names import retry_topic
from rmqproto.wire import fastjson

log = logging.getLogger(__name__)

POP = "POP"
STRATEGY = "AVG"


class BrokerAssignment:
    def __init__(self, client: ClientInstance, group: str, modes_to_set: Collection[str], share_queue_num: int):
        """The mode of the topics ``modes_to_set`` is set to POP if they are still pulled."""
        self._client = client
        self._group = group
        self._modes_to_set = set(modes_to_set)
        self._share_queue_num = share_queue_num

    async def ours(self, topic: str, readable: tuple[MessageQueue, ...]) -> set[MessageQueue] | None:
        """Our queues of a topic; None if the broker does not know us. RocketMQError if they cannot be determined now.
        The plain retry topic is never popped."""
        assigned = await self._assigned(topic, readable)
        if assigned is None:
            return None
        if topic != retry_topic(self._group) and not _are_popped(assigned):
            log.warning("nothing is popped: %s", self._is_pulled_yet(topic))
            return set()
        return {each.message_queue for each in assigned}

    async def check(self, topics: Collection[str]) -> None:
        """UsageError if one of the topics exists already and the group pulls it."""
        for topic in topics:
            queues = self._client.routes.known(topic)
            assigned = await self._assigned(topic, queues.readable) if queues is not None else None
            if assigned and not _are_popped(assigned):
                raise self._is_pulled_yet(topic)

    async def _assigned(self, topic: str, readable: tuple[MessageQueue, ...]) -> list[QueueAssignment] | None:
        """Asks the broker. Sets the mode first if that is wanted and has not been done yet."""
        assigned = await self._ask(topic, readable)
        if assigned and topic in self._modes_to_set:
            if not _are_popped(assigned):
                await self._set_pop(topic, readable)
                assigned = await self._ask(topic, readable)
            self._modes_to_set.discard(topic)
        return assigned

    async def _ask(self, topic: str, readable: tuple[MessageQueue, ...]) -> list[QueueAssignment] | None:
        """None if the broker does not know us; it then gets a heartbeat."""
        if not readable:
            return []
        address = self._client.routes.replica_of(readable[0], MASTER_ID)
        asked = AssignmentRequest(
            client_id=self._client.client_id, consumer_group=self._group, strategy_name=STRATEGY, topic=topic
        )
        answer = await self._client.channels.request(address, RequestCode.QUERY_ASSIGNMENT, body=fastjson.dumps(asked))
        assigned = fastjson.loads_untrusted(answer.body, Assignments).message_queue_assignments
        if assigned is None:
            await self._client.heartbeat_to(self._client.routes.broker_addresses())
        return assigned

    async def _set_pop(self, topic: str, readable: tuple[MessageQueue, ...]) -> None:
        """Makes every broker of the topic serve the group by pops from now on."""
        mode = RequestMode(
            consumer_group=self._group, mode=POP, pop_share_queue_num=self._share_queue_num, topic=topic
        )  # fmt: skip
        for broker_name in sorted({queue.broker_name for queue in readable}):
            address = self._client.routes.master(broker_name)
            code = RequestCode.SET_MESSAGE_REQUEST_MODE
            await self._client.channels.request(address, code, body=fastjson.dumps(mode))

    def _is_pulled_yet(self, topic: str) -> UsageError:
        return UsageError(
            f"group {self._group} pulls topic {topic}: nobody has set its mode to POP",
            hint=f"rmqadmin setConsumeMode -c CLUSTER -t {topic} -g {self._group} -m POP, or set_mode=True.",
        )


def _are_popped(assigned: list[QueueAssignment]) -> bool:
    return all(each.mode == POP for each in assigned)
