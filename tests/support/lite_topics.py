"""Lite topics on any broker: a parent topic, a group bound to it, messages, and a listener that keeps them."""

from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

import anyio.lowlevel

from rmqclient.admin import AdminClient
from rmqclient.listener import ConsumeStatus
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.support.servers import topic_config


class Place(Protocol):
    """A nameserver and a broker."""

    @property
    def namesrv_addr(self) -> str: ...

    @property
    def broker_addr(self) -> str: ...


def create_parent(place: Place, topic: str) -> str:
    with AdminClient(place.namesrv_addr) as admin:
        admin.create_topic(place.broker_addr, topic_config(topic, 4, attributes={"+message.type": "LITE"}))
    return topic


def create_group(place: Place, topic: str, group: str, **attributes: str) -> str:
    signed = {f"+lite.{name.replace('_', '.')}": value for name, value in {"bind_topic": topic, **attributes}.items()}
    with AdminClient(place.namesrv_addr) as admin:
        admin.create_group(place.broker_addr, SubscriptionGroupConfig(group_name=group, attributes=signed))
    return group


async def send(place: Place, topic: str, **bodies_by_lite_topic: str) -> None:
    """``send(place, topic, s1="a b c")``."""
    async with Producer(place.namesrv_addr, "p") as producer:
        for lite_topic, bodies in bodies_by_lite_topic.items():
            queues = set()
            for body in bodies.split():
                queues.add((await producer.send(Message(topic, body.encode(), lite_topic=lite_topic))).queue)
            assert len(queues) == 1, "all of a lite topic is in one queue of its parent"


class ByLiteTopic:
    """A listener that keeps the messages it gets, by lite topic."""

    def __init__(self, say: Callable[[ReceivedMessage], ConsumeStatus | None] = lambda message: None):
        self.say = say
        self.bodies: defaultdict[str, list[str]] = defaultdict(list)

    async def __call__(self, message: ReceivedMessage) -> ConsumeStatus | None:
        assert message.lite_topic is not None
        self.bodies[message.lite_topic].append(message.body.decode())
        await anyio.lowlevel.checkpoint()
        return self.say(message)
