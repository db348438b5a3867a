"""Allocation of a topic's queues by a broker, which also says whether they are popped or pulled
(``RebalanceImpl.getRebalanceResultFromBroker``, 5.5.0)."""

from __future__ import annotations

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.popping import AssignmentRequest, Assignments, QueueAssignment, RequestMode
from rmqproto.codes import RequestCode
from rmqproto.ha import MASTER_ID
from rmqproto.wire import fastjson

POP, PULL = "POP", "PULL"
STRATEGY = "AVG"


class BrokerAssignment:
    def __init__(self, client: ClientInstance, group: str):
        self._client = client
        self._group = group

    async def ask(self, topic: str, readable: tuple[MessageQueue, ...]) -> list[QueueAssignment] | None:
        """Our queues of the topic. None if the broker does not know us; it then gets a heartbeat. RocketMQError."""
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

    async def set_pop(self, topic: str, readable: tuple[MessageQueue, ...], share_queue_num: int) -> None:
        """Makes every broker of the topic serve the group by pops from now on. RocketMQError."""
        mode = RequestMode(consumer_group=self._group, mode=POP, pop_share_queue_num=share_queue_num, topic=topic)
        for broker_name in sorted({queue.broker_name for queue in readable}):
            address = self._client.routes.master(broker_name)
            code = RequestCode.SET_MESSAGE_REQUEST_MODE
            await self._client.channels.request(address, code, body=fastjson.dumps(mode))
