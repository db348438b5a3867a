"""A producer and a consumer of Apache's gRPC clients at a set of two brokers of ours under our controller, which loses
its master: by a handover, by kill -9 with the dead broker started again, or not. No message that was acknowledged is
missing.

How long nothing is taken is printed, not asserted: after a kill, clients that know only the master's address wait for
their next route, up to 30 s, as those of the older protocol do.
"""

import itertools
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import RefusedError, RocketMQError
from tests.support import servers
from tests.support.broker_set import PATIENT, BrokerSet
from tests.support.processes import end
from tests.support.servers import topic_config, until
from tests.support.two_in_sync import FORWARDING

from ..cluster import CLUSTER_NAME
from .test_grpc_clients import COMMANDS

pytestmark = pytest.mark.interop

BEFORE, BEHIND = 50, 50
CASES = [
    *itertools.product(("java", "python"), ("handover", "kill", "kill for good")),
    *itertools.product(("go",), ("handover", "kill for good")),
    *itertools.product(("node",), ("handover", "kill")),
]
"""Node's client takes one address only: it cannot outlive that broker."""


class Scene:
    """A program that plays a scene until it is ended. The constructor waits until it has started, which takes a virtual
    machine a minute where much else runs. ``said`` are its lines from then on, with the times at which they came."""

    def __init__(self, command: list[str], log_file: Path):
        self.said: list[tuple[float, str]] = []
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        if b"started\n" not in self._process.stdout:
            raise RuntimeError(f"exit status {end(self._process)}\n{log_file.read_text()}")
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append((time.monotonic(), line.decode().strip()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def bodies(self, word: str) -> list[str]:
        return [line.split()[1] for _, line in list(self.said) if line.startswith(f"{word} ")]

    def longest_pause_s(self) -> float:
        times = [at for at, line in self.said if line.startswith("sent ")]
        return max(later - at for at, later in itertools.pairwise(times))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[BrokerSet]:
    with ExitStack() as stack:
        controller = stack.enter_context(servers.controller(tmp_path / "controller"))
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
        made = BrokerSet(tmp_path, controller.controller_addr, namesrv, admin)
        stack.callback(lambda: [each.stop() for each in made.brokers.values()])
        for number in (1, 2):
            made.start(number, **FORWARDING, **PATIENT)
            until(lambda: len(made.known_addrs()) == number)  # noqa: B023
        made.until_all_in_sync()
        yield made


def is_new_master(two: BrokerSet, number: int) -> bool:
    try:
        return two.admin.ha_status(two.brokers[number].broker_addr).master
    except RocketMQError:
        return False


def is_handed_over(two: BrokerSet, to: int) -> bool:
    """A controller that has just started refuses: it does not know yet who is alive. It refuses, too, if the broker
    leads already: after a handover that took longer than the operator was to wait, or an election of its own."""
    try:
        two.admin.elect_master(two.controller_addr, CLUSTER_NAME, two.name, to, time.time_ns() // 1_000_000)
    except RefusedError:
        return is_new_master(two, to)
    return True


@pytest.mark.parametrize(("client", "how"), CASES)
def test_nothing_acknowledged_is_missing(client: str, how: str, two: BrokerSet, tmp_path: Path) -> None:
    topic, group = f"Topic-{client}", f"Group-{client}"
    masters: list[int] = []
    until(lambda: bool(masters.extend(number for number in two.brokers if is_new_master(two, number)) or masters))
    master, other = masters[0], 3 - masters[0]
    addr = two.brokers[master].broker_addr
    two.admin.create_topic(addr, topic_config(topic, 2))
    two.admin.create_group(addr, SubscriptionGroupConfig(group_name=group))
    endpoints = ";".join(two.brokers[number].broker_addr for number in (1, 2) if client != "node" or number == master)
    command = [*COMMANDS[client](tmp_path), endpoints]
    with (
        Scene([*command, "receive-on", topic, group], tmp_path / "consumer.log") as consumer,
        Scene([*command, "send-on", topic, group], tmp_path / "sender.log") as sender,
    ):
        until(lambda: len(sender.bodies("sent")) >= BEFORE and len(consumer.bodies("got")) > 0)
        if how == "handover":
            until(lambda: is_handed_over(two, other))
        else:
            two.brokers[master].stop(signal.SIGKILL)
        until(lambda: is_new_master(two, other))
        if how == "kill":  # not before: a young controller waits, and the one that was killed would be master again
            two.start(master, **FORWARDING, **PATIENT)
        count = len(sender.bodies("sent")) + BEHIND
        until(lambda: len(sender.bodies("sent")) >= count)
        first = min(map(int, consumer.bodies("got")))  # the group begins with what comes after its first poll
        kept = {body for body in sender.bodies("sent") if int(body) >= first}
        until(lambda: kept <= set(consumer.bodies("got")))
    failed = sum(line.startswith("failed") for _, line in sender.said + consumer.said)
    print(f"\n{client}, {how}: longest pause {sender.longest_pause_s():.1f} s, {failed} calls failed")
