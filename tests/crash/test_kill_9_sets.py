"""A set of three brokers and its controller, as processes. Master, slaves and controller are killed with -9 under load.
Afterwards each acknowledged message is at its queue offset at all three brokers, and no two messages were acknowledged
with the same offset."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.errors import RocketMQError
from tests.support import servers
from tests.support.beside import beside
from tests.support.broker_set import BROKER_NAME, BrokerSet, set_under
from tests.support.servers import Server, all_of, until

NUMBERS = (1, 2, 3)
SENDERS = 2
PAUSE_S = 0.02
ANSWER_TIMEOUT_S = 2.0
AT_LEAST = 20
"""Messages that must be stored after each kill."""

SETTINGS = {"minInSyncReplicas": "2", "controllerHeartBeatTimeoutMills": "3000"}
SCANS = ("--set", "scanNotActiveBrokerInterval=300", "--set", "scanInactiveMasterInterval=300")


class KilledSet:
    """``told`` has the bodies of acknowledged messages, by the queue offsets in their answers."""

    def __init__(self, directory: Path, controller: Server, found: BrokerSet):
        self.found = found
        self.controller = controller
        self.told: dict[int, bytes] = {}
        self.doubled: list[int] = []
        self._directory = directory
        self._queue = MessageQueue("Killed", BROKER_NAME, 0)
        self._target = 1

    def addr(self, number: int) -> str:
        return f"127.0.0.1:{self.found.ports[number]}"

    def start(self, number: int) -> None:
        self.found.start(number, **SETTINGS)

    def send(self, client: int, has_ended: threading.Event) -> None:
        """Sends to the broker that took the last message; when it takes none, to another."""
        number = 0
        with AdminClient(self.found.namesrv.namesrv_addr, timeout_s=ANSWER_TIMEOUT_S) as admin:
            while not has_ended.wait(PAUSE_S):
                target, number = self._target, number + 1
                body = b"%d of %d" % (number, client)
                try:
                    result = admin.send_message(self.addr(target), self._queue, Message(self._queue.topic, body))
                except RocketMQError:
                    result = None
                if result is None or result.status is not SendStatus.SEND_OK:
                    if self._target == target:
                        self._target = target % len(NUMBERS) + 1
                elif self.told.setdefault(result.queue_offset, body) != body:
                    self.doubled.append(result.queue_offset)

    @property
    def known(self) -> ReplicaSet | None:
        """The set as the controller knows it; None while it does not say."""
        try:
            table = self.found.admin.replica_sets(self.found.controller_addr, [BROKER_NAME]).replicas_info_table
        except RocketMQError:
            return None
        return table.get(BROKER_NAME)

    def until_in_sync(self, count: int = len(NUMBERS)) -> None:
        until(lambda: (known := self.known) is not None and len(known.in_sync_replicas) == count)

    def until_more_are_stored(self) -> None:
        before = len(self.told)
        until(lambda: len(self.told) >= before + AT_LEAST)

    def kill(self, role: str, rng: Random) -> None:
        known = self.known
        assert known is not None
        if role == "controller":
            self.controller.stop(signal.SIGKILL)
            port = self.found.controller_addr.rpartition(":")[2]
            self.controller = servers.controller(self._directory / "controller", "--port", port, *SCANS)
        else:
            is_master = role == "master"
            dead = rng.choice([each for each in NUMBERS if (self.addr(each) == known.master_address) is is_master])
            self.found.brokers[dead].stop(signal.SIGKILL)
            self.until_more_are_stored()
            self.start(dead)
        self.until_more_are_stored()
        self.until_in_sync()

    def bodies(self, number: int) -> list[bytes]:
        return [message.body for message in all_of(self.found.admin, self.addr(number), self._queue)]

    def has_all(self, number: int) -> bool:
        bodies = self.bodies(number)
        return max(self.told) < len(bodies) and all(bodies[offset] == body for offset, body in self.told.items())


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[KilledSet]:
    controller = servers.controller(tmp_path / "controller", *SCANS)
    with ExitStack() as stack, set_under(tmp_path, controller.controller_addr) as found:
        made = KilledSet(tmp_path, controller, found)
        stack.callback(lambda: made.controller.stop())
        for number in NUMBERS:
            made.start(number)
            made.until_in_sync(number)
        until(made.found.controller_is_settled)
        yield made


def check(killed: KilledSet, roles: list[str], rng: Random) -> None:
    with ExitStack() as clients:
        for client in range(SENDERS):
            clients.enter_context(beside(partial(killed.send, client)))
        killed.until_more_are_stored()
        for role in roles:
            killed.kill(role, rng)
    assert not killed.doubled
    for number in NUMBERS:
        until(lambda: killed.has_all(number))  # noqa: B023


@pytest.mark.slow
def test_each_role_is_killed(killed: KilledSet) -> None:
    check(killed, ["master", "slave", "controller", "master"], Random(1))


@pytest.mark.crash
def test_a_thousand_kills(killed: KilledSet) -> None:
    """Takes an hour."""
    rng = Random(2)
    check(killed, [rng.choice(["master", "master", "slave", "slave", "controller"]) for _ in range(1000)], rng)
