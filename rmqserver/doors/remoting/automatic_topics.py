"""A topic that a first send creates here is created on the cluster's other brokers as well, with
``autoCreateTopicOnAllBrokers``. Otherwise a producer that sends one message and waits gives its topic to one broker:
its client asks for the route again, which has only that one."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import trio

from rmqproto.bodies.routes import TopicConfig, TopicRoute
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.ha import MASTER_ID
from rmqproto.headers.tables import TopicConfigHeader, TopicHeader
from rmqproto.names import AUTO_CREATE_TOPIC
from rmqserver.remoting.outward import Outward, ask, connect, signed
from rmqserver.remoting.service import Service

if TYPE_CHECKING:
    from rmqproto.headers.base import Header
    from rmqserver.broker.broker import Broker
    from rmqserver.remoting.connection import Connection

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 3.0


class AutomaticTopics(Service):
    """``run`` is a task of the door."""

    def __init__(self, broker: Broker, outward: Outward):
        super().__init__("automatic topics", {})
        self._broker = broker
        self._outward = outward
        # Clients wait for none of it, so it must not refuse. A broker has at most so many topics.
        self._created, self._to_tell = trio.open_memory_channel[TopicConfig](math.inf)
        broker.topics.on_automatic = self._created.send_nowait

    async def run(self) -> None:
        """Never returns. A broker that cannot be reached goes without the topic."""
        async for topic in self._to_tell:
            for addr in await self._others():
                try:
                    await self._tell(addr, topic)
                except OSError as error:
                    reason = str(error) or type(error).__name__
                    log.warning("event=topic-not-on-all topic=%s addr=%s reason=%r", topic.topic_name, addr, reason)

    async def _others(self) -> list[str]:
        """The masters of our cluster that create topics on a first send: they have the topic whose route a client
        without one takes."""
        routes: list[TopicRoute | None] = []
        answered = trio.Event()

        def on_route(route: TopicRoute | None) -> None:
            routes.append(route)
            answered.set()

        self._broker.ask_route(AUTO_CREATE_TOPIC, on_route)
        await answered.wait()
        own, found = self._broker.config, routes[0].broker_datas if routes[0] is not None else []
        return [
            each.broker_addrs[MASTER_ID]
            for each in found
            if each.cluster == own.broker_cluster_name
            and each.broker_name != own.broker_name
            and MASTER_ID in each.broker_addrs
        ]

    async def _tell(self, addr: str, topic: TopicConfig) -> None:
        """A topic that is there stays as it is: fewer queues would hide messages. OSError."""
        connection = await connect(self._broker.loop, self, addr, self._outward.make_pump())
        try:
            code = await self._ask(connection, RequestCode.GET_TOPIC_CONFIG, TopicHeader(topic=topic.topic_name))
            if code == ResponseCode.TOPIC_NOT_EXIST:
                header = TopicConfigHeader(
                    topic=topic.topic_name,
                    default_topic=AUTO_CREATE_TOPIC,
                    read_queue_nums=topic.read_queue_nums,
                    write_queue_nums=topic.write_queue_nums,
                    perm=topic.perm,
                    topic_sys_flag=topic.topic_sys_flag,
                )
                code = await self._ask(connection, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            if code != ResponseCode.SUCCESS:
                raise OSError(f"answered with code {code}")
        finally:
            connection.close("the topic was told")

    async def _ask(self, connection: Connection, code: int, header: Header) -> int:
        answer = await ask(connection, code, signed(header, b"", self._outward.credentials), b"", ANSWER_TIMEOUT_S)
        if answer is None:
            raise OSError("no answer")
        return answer.code
