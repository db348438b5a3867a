"""A listener for tests, and waiting for what it gets."""

from collections.abc import Callable

import anyio

from rmqclient.listener import SUCCESS, ConsumeStatus
from rmqclient.message import ReceivedMessage

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
