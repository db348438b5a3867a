"""Real clients that send steadily while something happens to their brokers."""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.beside import beside

from .client import Client, of_type
from .events import Outgoing, Sent
from .other_clients import COMMANDS
from .witness import Witness

REFUSED_PAUSE_S = 0.05

_JAVA_AS_IT_COMES_MS = {"poll": 30_000, "rebalance": 20_000}


def client_as_it_comes(name: str, namesrv_addr: str, home: Path) -> Client:
    """A client that polls as often as by default. FileNotFoundError names a program that the machine lacks."""
    if name == "java":
        options = (f"-Dwitness.consumerTimerMs={_JAVA_AS_IT_COMES_MS['poll']}",)
        rebalance_ms = _JAVA_AS_IT_COMES_MS["rebalance"]
        return Witness(namesrv_addr, home, rebalance_interval_ms=rebalance_ms, java_options=options)
    more = ["as it comes"] if name == "node" else []
    return Client([*COMMANDS[name](namesrv_addr, home), *more], home)


@dataclass
class Taken:
    """Acknowledged messages: their numbers by queue, and when the answers came."""

    numbers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    moments_s: list[float] = field(default_factory=list)
    refused: int = 0


@contextmanager
def sending(client: Client, topic: str, *, prefix: str = "", pause_s: float = 0) -> Iterator[Taken]:
    """Sends one message after the other. The body is the prefix and a number that is used only once, so a refused
    message is not sent again."""
    taken = Taken()

    def run(has_ended: threading.Event) -> None:
        for number in itertools.count():
            if has_ended.is_set():
                return
            for answer in of_type(client.try_send(topic, [Outgoing(body=b"%b%d" % (prefix.encode(), number))]), Sent):
                if answer.status == "SEND_OK":
                    taken.numbers[answer.queue_id].append(number)
                    taken.moments_s.append(time.monotonic())
                    has_ended.wait(pause_s)
                    break
            else:
                taken.refused += 1
                has_ended.wait(REFUSED_PAUSE_S)

    with beside(run):
        yield taken
