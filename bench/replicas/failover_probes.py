"""Clients that keep working while a set loses its master. Each notes when a message that it sent was taken, and when it
consumed one.

One client asks the brokers directly, so it only measures the set. ``rmqclient`` and the real clients of Java, Go and
Node must notice the loss and find the other broker. They have their default intervals, but do not retry sends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from rmqclient.admin import AdminClient
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.message import Message, ReceivedMessage, SendStatus
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from tests.interop.cluster import BROKER_NAME
from tests.interop.steady import client_as_it_comes, sending
from tests.support.beside import beside

TOPIC = "Kept"
QUEUES = 4
DIRECT_TIMEOUT_S = 1.0
PAUSE_S = 0.01
"""The pause between two messages."""


@dataclass
class Noted:
    """The times of one client's sends, or of the messages it consumed, by a monotonic clock. ``bodies`` are those of
    the messages that were taken."""

    moments_s: list[float] = field(default_factory=list)
    bodies: Callable[[], set[bytes]] = set

    def now(self) -> None:
        self.moments_s.append(time.monotonic())


Start = Callable[[str, list[str], Path], AbstractContextManager[dict[str, Noted]]]
"""Starts a client, given a nameserver, the brokers, and a folder. It runs for the duration of the block."""


@contextmanager
def direct(namesrv_addr: str, broker_addrs: list[str], work: Path) -> Iterator[dict[str, Noted]]:
    """Tries the brokers in turn, and stays with the one that takes messages."""
    bodies = set[bytes]()
    takes = Noted(bodies=lambda: bodies)

    def run(has_ended: threading.Event) -> None:
        queue = MessageQueue(TOPIC, BROKER_NAME, 0)
        at = count = 0
        with AdminClient("127.0.0.1:1", timeout_s=DIRECT_TIMEOUT_S) as admin:
            while not has_ended.wait(PAUSE_S):
                count += 1
                message = Message(TOPIC, b"direct %d" % count)
                try:
                    answer = admin.send_message(broker_addrs[at], queue, message)
                except RocketMQError:
                    at = (at + 1) % len(broker_addrs)
                    continue
                if answer.status is SendStatus.SEND_OK:
                    bodies.add(message.body)
                    takes.now()

    with beside(run):
        yield {"the set takes": takes}


@contextmanager
def rmqclient(namesrv_addr: str, broker_addrs: list[str], work: Path) -> Iterator[dict[str, Noted]]:
    bodies = set[bytes]()
    takes, gets = Noted(bodies=lambda: bodies), Noted()

    async def listen(message: ReceivedMessage) -> None:
        gets.now()

    async def run(has_ended: threading.Event) -> None:
        async with (
            PushConsumer(namesrv_addr, "CID_bench", {TOPIC: "*"}, listen),
            Producer(namesrv_addr, "PID_bench", timeout_s=DIRECT_TIMEOUT_S) as producer,
        ):
            count = 0
            while not has_ended.is_set():
                count += 1
                message = Message(TOPIC, b"rmqclient %d" % count)
                try:
                    answer = await producer.send(message)
                except RocketMQError:
                    continue
                finally:
                    await trio.sleep(PAUSE_S)
                if answer.status is SendStatus.SEND_OK:
                    bodies.add(message.body)
                    takes.now()

    with beside(lambda has_ended: trio.run(run, has_ended)):
        yield {"rmqclient sends": takes, "rmqclient consumes": gets}


@contextmanager
def real(name: str, namesrv_addr: str, broker_addrs: list[str], work: Path) -> Iterator[dict[str, Noted]]:
    prefix = f"{name} "
    gets = Noted()
    with client_as_it_comes(name, namesrv_addr, work / name) as client:
        client.consume(group_of(name), TOPIC, on_message=lambda _: gets.now())
        with sending(client, TOPIC, prefix=prefix, pause_s=PAUSE_S) as taken:

            def bodies() -> set[bytes]:
                return {b"%b%d" % (prefix.encode(), each) for numbers in taken.numbers.values() for each in numbers}

            yield {f"{name} sends": Noted(taken.moments_s, bodies), f"{name} consumes": gets}
        client.kill()  # an orderly exit takes it a while


def group_of(name: str) -> str:
    return f"CID_bench_{name}"


NEEDS = {"java": ("java", "javac", "mvn"), "go": ("go",), "node": ("node", "npm")}
"""The programs that each real client needs."""
PROBES: dict[str, Start] = {"direct": direct, "rmqclient": rmqclient, **{name: partial(real, name) for name in NEEDS}}
