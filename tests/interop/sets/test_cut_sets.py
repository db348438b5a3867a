"""A real broker and one of ours in one set, under our controller and under Apache's. Each is the master once. The
network cuts it off from all others while clients on both sides go on, then heals; then it is cut off as a slave.

The test asserts our promise: no acknowledged message is missing, unless Apache's broker acknowledged it while cut off.
That broker has no lease, and drops a slave that it does not hear before any controller agrees. With
``allAckInSyncStateSet`` it acknowledges alone as soon as the slave's connection has timed out
(``haHousekeepingInterval``), and loses those messages when the network heals.
"""

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
from rmqproto.errors import RocketMQError
from tests.support import servers
from tests.support.beside import beside
from tests.support.broker_set import is_settled
from tests.support.cut_network import CutNetwork
from tests.support.processes import free_ports
from tests.support.servers import until

from ..cluster import BROKER_NAME
from ..controllers import ApacheControllers, ApacheMember, OurMember

pytestmark = pytest.mark.interop

QUEUE = MessageQueue("CutOff", BROKER_NAME, 0)
SERVERS_HOST, OUR_HOST, THEIR_HOST = "127.0.0.21", "127.0.0.22", "127.0.0.23"
APACHE_HOST = "127.0.0.9"
"""The host of Apache's controller, which calls itself 127.0.0.1. The replacement must be of the same length."""
SETTINGS = {
    "controllerHeartBeatTimeoutMills": "3000", "brokerHeartbeatInterval": "500", "slaveTimeout": "1000",
    "haMaxTimeSlaveNotCatchup": "2000", "checkSyncStateSetPeriod": "500", "syncBrokerMetadataPeriod": "1000",
    "haSendHeartbeatInterval": "500", "haHousekeepingInterval": "2500",
    "forwardToMasterEnable": "false",
}  # fmt: skip
SCANS = {"scanNotActiveBrokerInterval": "500", "scanInactiveMasterInterval": "500"}
NEAR = b"sent to a master that is cut off"
COUNT = 20
PAUSE_S = 0.05
ANSWER_TIMEOUT_S = 2.0

Member = OurMember | ApacheMember


@dataclass(frozen=True)
class ToldServers:
    """The nameserver and controller addresses that brokers are given."""

    namesrv_addr: str
    addr: str


@dataclass
class CutPair:
    """``kept`` holds acknowledged messages in order, without those that a cut-off Apache broker acknowledged."""

    network: CutNetwork
    controller: ToldServers
    admin: AdminClient
    hosts: dict[str, Member] = field(default_factory=dict)
    kept: list[bytes] = field(default_factory=list)
    near: list[SendStatus | None] = field(default_factory=list)

    def join(self, host: str, member: Member) -> None:
        """Starts the member and makes it reachable at ``host``."""
        port = int(member.broker_addr.rpartition(":")[2])
        for each in (port - 2, port):
            self.network.lead(host, f"127.0.0.1:{each}", each)
        ha_addr = f"127.0.0.1:{port + 1}"
        if isinstance(member, ApacheMember):
            # An Apache broker takes its HA port on all addresses of the machine, so others are told another port.
            self.network.renamed[f"{host}:{port + 1}"] = self.network.lead(host, ha_addr, has_frames=False)
            member.settings |= {"bindAddress": "127.0.0.1", "brokerIP1": host, "brokerIP2": host}
        else:
            self.network.lead(host, ha_addr, port + 1, has_frames=False)
        self.hosts[host] = member
        member.start()

    def told_addr(self, host: str) -> str:
        return f"{host}:{self.hosts[host].broker_addr.rpartition(':')[2]}"

    @contextmanager
    def cut(self, host: str) -> Iterator[None]:
        self.network.cut(host, self.hosts[host].broker_pid)
        try:
            yield
        finally:
            self.network.heal(host)

    # --- clients -----------------------------------------------------------------------------------------------------

    def _send(self, admin: AdminClient, addr: str, body: bytes) -> SendStatus | None:
        try:
            return admin.send_message(addr, QUEUE, Message(QUEUE.topic, body)).status
        except RocketMQError:
            return None

    def send(self, host: str) -> bool:
        body = b"%d-" % len(self.kept) * 100
        is_told = self._send(self.admin, self.told_addr(host), body) is SendStatus.SEND_OK
        if is_told:
            self.kept.append(body)
        return is_told

    def send_many(self, host: str) -> None:
        until(lambda: self.send(host))
        assert all([self.send(host) for _ in range(COUNT)])

    def send_near(self, host: str, has_ended: threading.Event) -> None:
        with AdminClient(self.controller.namesrv_addr, timeout_s=ANSWER_TIMEOUT_S) as admin:
            while not has_ended.wait(PAUSE_S):
                self.near.append(self._send(admin, self.hosts[host].broker_addr, NEAR))

    # --- state of the set --------------------------------------------------------------------------------------------

    @property
    def known(self) -> ReplicaSet:
        found = self.admin.replica_sets(self.controller.addr, [BROKER_NAME]).replicas_info_table
        return found.get(BROKER_NAME, ReplicaSet())

    def until_in_sync(self, *hosts: str) -> None:
        wanted = {self.told_addr(host) for host in hosts}
        until(lambda: {each.broker_address for each in self.known.in_sync_replicas} == wanted)

    def bodies(self, host: str) -> list[bytes]:
        found: list[bytes] = []
        while messages := self.admin.pull_message(self.hosts[host].broker_addr, QUEUE, len(found)).messages:
            found += [message.body for message in messages]
        return found

    def has_kept(self, host: str) -> bool:
        try:
            found = iter(self.bodies(host))
        except RocketMQError:
            return False
        return all(body in found for body in self.kept)

    def log(self, host: str) -> bytes:
        member = self.hosts[host]
        end = self.admin.epoch_cache(member.broker_addr).max_offset
        files = sorted((member.work / "store/commitlog").iterdir())
        return b"".join(file.read_bytes() for file in files)[:end]

    def master_is_cut_off(self, host: str, other: str) -> None:
        """The other broker takes over, and is still the master after the heal."""
        self.send_many(host)
        self.near.clear()
        with self.cut(host), beside(partial(self.send_near, host)):
            until(lambda: self.known.master_address == self.told_addr(other))
            self.send_many(other)
        acknowledged = self.near.count(SendStatus.SEND_OK)
        if isinstance(self.hosts[host], OurMember):
            assert self.near
            assert not acknowledged
        else:
            print(f"\nApache's broker acknowledged {acknowledged} of {len(self.near)} alone")
        self.until_equal(host, other)
        print(f"{self.bodies(host).count(NEAR)} of what {host} took while it was cut off is there")

    def slave_is_cut_off(self, host: str, master: str) -> None:
        """The master goes on alone, as soon as the controller has agreed."""
        with self.cut(host):
            self.until_in_sync(master)
            self.send_many(master)
        self.until_equal(host, master)

    def until_equal(self, host: str, master: str) -> None:
        self.until_in_sync(host, master)
        self.send_many(master)
        until(lambda: self.has_kept(host))
        until(lambda: self.log(host) == self.log(master))


@pytest.fixture(params=["ours", "apache"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CutPair]:
    with ExitStack() as stack:
        network = stack.enter_context(CutNetwork())
        if request.param == "ours":
            scans = [part for setting in SCANS.items() for part in ("--set", "=".join(setting))]
            namesrv_addr = stack.enter_context(servers.namesrv(tmp_path / "namesrv")).namesrv_addr
            port = free_ports()[1]
            told = network.lead(SERVERS_HOST, f"127.0.0.1:{port}", port)
            given = ("--port", str(port), "--advertise", told, *scans)
            stack.enter_context(servers.controller(tmp_path / "controller", *given))
        else:
            controllers = stack.enter_context(ApacheControllers(tmp_path / "controller", more=SCANS))
            namesrv_addr = controllers.namesrv_addr
            told = network.renamed[controllers.addr] = network.lead(APACHE_HOST, controllers.addr)
        told_servers = ToldServers(network.lead(SERVERS_HOST, namesrv_addr), told)
        made = CutPair(network, told_servers, stack.enter_context(AdminClient(told_servers.namesrv_addr)))
        stack.callback(lambda: [member.kill() for member in made.hosts.values()])
        reached = {"brokerIP1": OUR_HOST, "brokerIP2": OUR_HOST}
        made.join(OUR_HOST, OurMember(tmp_path / "ours", told_servers, SETTINGS | reached))
        made.until_in_sync(OUR_HOST)
        made.join(THEIR_HOST, ApacheMember(tmp_path / "theirs", told_servers, SETTINGS))
        made.until_in_sync(OUR_HOST, THEIR_HOST)
        if request.param == "ours":
            until(lambda: is_settled(made.admin, told))
        yield made


def test_each_is_cut_off_as_the_master_and_as_the_slave(pair: CutPair) -> None:
    pair.master_is_cut_off(OUR_HOST, THEIR_HOST)
    pair.slave_is_cut_off(OUR_HOST, THEIR_HOST)
    pair.master_is_cut_off(THEIR_HOST, OUR_HOST)
    pair.slave_is_cut_off(THEIR_HOST, OUR_HOST)
