"""The network cuts brokers of ours off from controller, nameserver, each other and clients, while clients on both sides
of the cut go on: the master and a slave of a set of three, and a master with a lease."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError
from rmqproto.message.record import StoredMessage
from tests.support import servers
from tests.support.beside import beside
from tests.support.broker_set import BrokerSet
from tests.support.cut_network import CutNetwork
from tests.support.processes import free_ports
from tests.support.servers import until

pytestmark = pytest.mark.slow

SETTINGS = {"controllerHeartBeatTimeoutMills": "2000", "haMaxTimeSlaveNotCatchup": "1500", "slaveTimeout": "500"}
SCANS = ("--set", "scanNotActiveBrokerInterval=300", "--set", "scanInactiveMasterInterval=300")
SERVERS_HOST = "127.0.0.9"
TOPIC = "Cut"
AT_LEAST = 20
ANSWER_TIMEOUT_S = 1.5
PAUSE_S = 0.02


@dataclass(frozen=True)
class ToldNameserver:
    namesrv_addr: str


@dataclass
class CutSet:
    """``told``: messages whose producers were told that they are stored, by queue offset. ``near``: the answers to a
    client on the side of the broker that is cut off."""

    network: CutNetwork
    found: BrokerSet
    told: dict[int, bytes] = field(default_factory=dict)
    doubled: list[int] = field(default_factory=list)
    near: list[SendStatus | int | None] = field(default_factory=list)
    target: int = 1

    def start(self, number: int, **more: str) -> None:
        host = self.host(number)
        port = self.found.ports.setdefault(number, free_ports()[1])
        for each in (port - 2, port, port + 1):
            self.network.lead(host, f"127.0.0.1:{each}", each, has_frames=each <= port)
        self.found.start(number, brokerIP1=host, **{**SETTINGS, "brokerIP2": host, **more})

    @contextmanager
    def three_under_load(self) -> Iterator[None]:
        """Three brokers in sync, of which two must have a message, while two clients send."""
        for number in (1, 2, 3):
            self.start(number, minInSyncReplicas="2")
            until(lambda: len(self.in_sync) == number)  # noqa: B023
        until(self.found.controller_is_settled)
        with ExitStack() as clients:
            for client in range(2):
                clients.enter_context(beside(partial(self.send_far, client)))
            self.until_more_are_stored()
            yield

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(TOPIC, self.found.name, 0)

    @staticmethod
    def host(number: int) -> str:
        return f"127.0.0.{10 + number}"

    def addr(self, number: int) -> str:
        """The address that everybody is told."""
        return f"{self.host(number)}:{self.found.ports[number]}"

    def near_addr(self, number: int) -> str:
        """The address on the broker's own side of a cut."""
        return f"127.0.0.1:{self.found.ports[number]}"

    @contextmanager
    def cut(self, number: int) -> Iterator[None]:
        self.network.cut(self.host(number), self.found.brokers[number].pid)
        try:
            yield
        finally:
            self.network.heal(self.host(number))

    # --- clients -----------------------------------------------------------------------------------------------------

    def send_far(self, client: int, has_ended: threading.Event) -> None:
        """Sends to the broker that took the last message; to the next one when it refuses."""
        number = 0
        with AdminClient(self.found.namesrv.namesrv_addr, timeout_s=ANSWER_TIMEOUT_S) as admin:
            while not has_ended.wait(PAUSE_S):
                target, number = self.target, number + 1
                if self.send(admin, self.addr(target), b"%d of %d" % (number, client)) is not SendStatus.SEND_OK:
                    self.target = target % len(self.found.brokers) + 1

    def send_near(self, number: int, has_ended: threading.Event) -> None:
        with AdminClient(self.found.namesrv.namesrv_addr, timeout_s=ANSWER_TIMEOUT_S) as admin:
            while not has_ended.wait(PAUSE_S):
                self.near.append(self.send(admin, self.near_addr(number), b"near, %d" % len(self.near)))

    def send(self, admin: AdminClient, addr: str, body: bytes) -> SendStatus | int | None:
        """Returns the status of a stored message, the code of a refusal, or None."""
        try:
            result = admin.send_message(addr, self.queue, Message(TOPIC, body))
        except RefusedError as error:
            return error.code
        except RocketMQError:
            return None
        if result.status is SendStatus.SEND_OK and self.told.setdefault(result.queue_offset, body) != body:
            self.doubled.append(result.queue_offset)
        return result.status

    def until_more_are_stored(self) -> None:
        before = len(self.told)
        until(lambda: len(self.told) >= before + AT_LEAST)

    def hand_over_to(self, number: int, has_ended: threading.Event) -> None:
        """Asks the controller once; the cut may make it refuse, or take its answer away."""
        (broker_id,) = (
            each.broker_id for each in self.known.in_sync_replicas if each.broker_address == self.addr(number)
        )
        with AdminClient(self.found.namesrv.namesrv_addr) as admin:
            try:
                admin.elect_master(self.found.controller_addr, "DefaultCluster", self.found.name, broker_id, 1)
            except RocketMQError:
                return

    # --- what is so --------------------------------------------------------------------------------------------------

    @property
    def known(self) -> ReplicaSet:
        name = self.found.name
        found = self.found.admin.replica_sets(self.found.controller_addr, [name]).replicas_info_table
        return found.get(name, ReplicaSet())

    def number_of(self, addr: str | None) -> int:
        return next(number for number in self.found.brokers if self.addr(number) == addr)

    @property
    def in_sync(self) -> set[int]:
        return {self.number_of(each.broker_address) for each in self.known.in_sync_replicas}

    def until_all_in_sync(self) -> None:
        until(lambda: self.in_sync == set(self.found.brokers))

    def messages(self, number: int) -> list[StoredMessage]:
        return servers.all_of(self.found.admin, self.near_addr(number), self.queue)

    def log(self, number: int) -> bytes:
        """The log up to its end; the files are longer."""
        end = self.found.admin.epoch_cache(self.near_addr(number)).max_offset
        files = sorted((self.found.brokers[number].store_dir / "commitlog").iterdir())
        return b"".join(file.read_bytes() for file in files)[:end]

    def check(self, masters_min: int = 2) -> None:
        """Checks what must hold once the network is healed. At least so many masters have written."""
        assert not self.doubled, "no two masters told of one offset"
        self.until_logs_are_equal()
        first = min(self.found.brokers)
        stored = self.messages(first)
        assert {offset: stored[offset].body for offset in self.told} == self.told
        epochs = self.found.admin.epoch_cache(self.near_addr(first)).epoch_list
        writers: dict[int, set[bytes]] = {}
        for message in stored:
            epoch = max(each.epoch for each in epochs if each.start_offset <= message.log_offset)
            writers.setdefault(epoch, set()).add(message.store_host)
        assert all(len(each) == 1 for each in writers.values()), "one master writes in each epoch"
        assert len(writers) >= masters_min

    def until_logs_are_equal(self) -> None:
        until(lambda: len({self.log(number) for number in self.found.brokers}) == 1)
        for number in self.found.brokers:
            until(lambda: len(self.messages(number)) > max(self.told))  # noqa: B023


@dataclass(frozen=True)
class Servers:
    """The servers that all sets share, because a controller elects nobody in its first ten seconds."""

    network: CutNetwork
    nameserver: ToldNameserver
    controller_addr: str


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    work = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        network = stack.enter_context(CutNetwork())
        namesrv = stack.enter_context(servers.namesrv(work / "namesrv"))
        nameserver = ToldNameserver(network.lead(SERVERS_HOST, namesrv.namesrv_addr))
        port = str(free_ports()[1])
        told = network.lead(SERVERS_HOST, f"127.0.0.1:{port}", int(port))
        stack.enter_context(servers.controller(work / "controller", "--port", port, "--advertise", told, *SCANS))
        yield Servers(network, nameserver, told)


@pytest.fixture
def cut_set(shared: Servers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CutSet]:
    """A set without brokers; the test starts them."""
    name, nameserver = request.node.name[-20:], shared.nameserver
    with AdminClient(nameserver.namesrv_addr) as admin:
        made = CutSet(shared.network, BrokerSet(tmp_path, shared.controller_addr, nameserver, admin, name))
        yield made
        for server in made.found.brokers.values():
            server.stop()


def log_of(cut_set: CutSet, number: int) -> str:
    return cut_set.found.brokers[number].log_file.read_text()


def test_a_master_and_a_slave_of_three_are_cut_off(cut_set: CutSet) -> None:
    with cut_set.three_under_load():
        former = cut_set.number_of(cut_set.known.master_address)
        with cut_set.cut(former), beside(partial(cut_set.send_near, former)):
            until(lambda: former not in cut_set.in_sync)
            cut_set.until_more_are_stored()
            until(lambda: SendStatus.FLUSH_SLAVE_TIMEOUT in cut_set.near)
        assert SendStatus.SEND_OK not in cut_set.near
        cut_set.until_all_in_sync()
        assert "event=log-cut" in log_of(cut_set, former), "it took what nobody else has"
        cut_set.until_more_are_stored()

        slave = min(set(cut_set.found.brokers) - {cut_set.number_of(cut_set.known.master_address)})
        cuts = log_of(cut_set, slave).count("event=log-cut")
        cut_set.near.clear()
        with cut_set.cut(slave), beside(partial(cut_set.send_near, slave)):
            until(lambda: slave not in cut_set.in_sync)
            before = {offset: message.body for offset, message in enumerate(cut_set.messages(slave))}
            cut_set.until_more_are_stored()
            until(lambda: len(cut_set.near) > AT_LEAST)
            assert len(cut_set.messages(slave)) == len(before), "nothing comes through"
        assert SendStatus.SEND_OK not in cut_set.near
        cut_set.until_all_in_sync()
        cut_set.until_more_are_stored()
    cut_set.check()
    assert {offset: cut_set.messages(slave)[offset].body for offset in before} == before, "what it showed is there"
    assert log_of(cut_set, slave).count("event=log-cut") == cuts, "it has only what its master has"


@pytest.mark.parametrize("is_successor_cut", [False, True], ids=["master", "successor"])
def test_one_of_three_is_cut_off_in_the_middle_of_a_handover(cut_set: CutSet, *, is_successor_cut: bool) -> None:
    with cut_set.three_under_load():
        former = cut_set.number_of(cut_set.known.master_address)
        successor = min(set(cut_set.found.brokers) - {former})
        with beside(partial(cut_set.hand_over_to, successor)):
            until(lambda: "event=handover-begins" in log_of(cut_set, former))
            with cut_set.cut(successor if is_successor_cut else former):
                cut_set.until_more_are_stored()
                near = cut_set.near_addr(successor if is_successor_cut else former)
                with AdminClient(cut_set.found.namesrv.namesrv_addr, timeout_s=ANSWER_TIMEOUT_S) as admin:
                    assert cut_set.send(admin, near, b"near") is not SendStatus.SEND_OK
        cut_set.until_all_in_sync()
        cut_set.until_more_are_stored()
    cut_set.check(masters_min=1)  # a master without its successor stays


def test_a_master_that_is_cut_off_acknowledges_nothing_behind_its_lease(cut_set: CutSet) -> None:
    """It does not wait for copies, so messages that it took during its lease are lost, as docs/replication.md says."""
    for number in (1, 2):
        cut_set.start(number, allAckInSyncStateSet="false")
        until(lambda: len(cut_set.in_sync) == number)  # noqa: B023
    until(cut_set.found.controller_is_settled)
    former = cut_set.number_of(cut_set.known.master_address)
    with beside(partial(cut_set.send_near, former)):
        until(lambda: len(cut_set.told) > AT_LEAST)
        with cut_set.cut(former):
            until(lambda: cut_set.number_of(cut_set.known.master_address) != former)
            cut_set.near.clear()
            until(lambda: len(cut_set.near) > AT_LEAST)
            answered = set(cut_set.near[1:])  # the first send may have begun before the cut
    assert SendStatus.SEND_OK not in answered
    assert ResponseCode.SERVICE_NOT_AVAILABLE in answered
    cut_set.told.clear()
    cut_set.until_all_in_sync()
    assert "event=log-cut" in log_of(cut_set, former)
    with beside(partial(cut_set.send_far, 1)):
        cut_set.until_more_are_stored()
    cut_set.check()
