"""Messages for tests, a listener that keeps them, and waiting for what it gets."""

from collections.abc import Callable

import anyio

from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.listener import SUCCESS, ConsumeStatus, Listener
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from tests.support.servers import Server

TIMEOUT_S = 30.0
POLL_S = 0.005


class Collector:
    """A listener that keeps its messages and returns SUCCESS, or what ``say`` returns."""

    def __init__(self, say: Callable[[ReceivedMessage], ConsumeStatus] = lambda message: SUCCESS):
        self.say = say
        self.bodies: list[bytes] = []
        self.messages: list[ReceivedMessage] = []

    async def __call__(self, message: ReceivedMessage) -> ConsumeStatus:
        self.bodies.append(message.body)
        self.messages.append(message)
        return self.say(message)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(TIMEOUT_S):
        while not condition():
            await anyio.sleep(POLL_S)


async def send_numbers(
    server: Server, topic: str, numbers: range, queue_count: int = 1, tags: str | None = None
) -> list[bytes]:
    """Sends the numbers as bodies, each to the queue of its remainder, and returns the bodies."""
    bodies = [b"%d" % number for number in numbers]
    async with Producer(server.namesrv_addr, "p") as producer:
        for number, body in zip(numbers, bodies, strict=True):
            await producer.send(Message(topic, body, tags), MessageQueue(topic, "broker-a", number % queue_count))
    return bodies


def from_first(
    server: Server, group: str, topic: str, listener: Listener, expression: str = "*", **options: object
) -> PushConsumer:
    """Reads the topic from its first message on."""
    return PushConsumer(
        server.namesrv_addr,
        group,
        {topic: expression},
        listener,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        **options,  # type: ignore[arg-type]
    )
