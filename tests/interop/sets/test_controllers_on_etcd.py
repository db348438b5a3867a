"""Three of our controllers, as processes, on a real etcd. The leading one is killed under brokers that take messages, a
member of etcd is killed and frozen, and all of etcd is away for a while. No acknowledged message is missing."""

import base64
import dataclasses
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.errors import RefusedError, RocketMQError
from rmqproto.headers.controller import ApplyBrokerIdHeader
from tests.support import servers
from tests.support.beside import beside
from tests.support.broker_set import BROKER_NAME, PROBE, BrokerSet
from tests.support.certificates import Authority
from tests.support.processes import free_ports
from tests.support.servers import Server, until

from ..apache import ApacheBroker
from ..cluster import SETTINGS
from ..controllers import CONTROLLER_MODE
from ..etcd import EtcdGroup
from ..mqadmin import Mqadmin

pytestmark = pytest.mark.interop

TTL_S = 5
CLUSTER = "DefaultCluster"


class Controllers:
    """Controller processes on fixed ports, by number."""

    def __init__(self, work: Path, etcd: EtcdGroup, admin: AdminClient, count: int = 3, *settings: str):
        self._work, self._etcd, self._admin, self._settings = work, etcd, admin, settings
        ports = [free_ports()[1] for _ in range(count)]
        self.addrs = [f"127.0.0.1:{port}" for port in ports]
        self.servers: dict[int, Server] = {}
        for number in range(count):
            self.start(number)

    def start(self, number: int) -> None:
        directory = self._work / f"c{number}"
        directory.mkdir(parents=True, exist_ok=True)
        port = self.addrs[number].rpartition(":")[2]
        settings = (f"controllerDLegerSelfId=n{number}", f"etcdLeaseTtlSeconds={TTL_S}", *self._settings)
        self.servers[number] = Server(
            "controller", "--port", port, "--etcd", ",".join(self._etcd.urls),
            *(part for each in settings for part in ("--set", each)), log_file=directory / "log",
        )  # fmt: skip

    def leaders(self) -> list[int]:
        """The numbers of the controllers that claim to lead."""
        return [number for number in self.servers if self._meta_is_leader(number)]

    def _meta_is_leader(self, number: int) -> bool:
        try:
            return self._admin.controller_metadata(self.addrs[number]).is_leader
        except RocketMQError:
            return False

    def leader(self) -> int:
        """Waits for a leader. Fails if there are two."""
        found: list[int] = []
        until(lambda: bool(found.extend(self.leaders()) or found))
        assert len(found) == 1, "never two"
        return found[0]

    def kill(self, number: int) -> None:
        self.servers.pop(number).stop(signal.SIGKILL)

    def known(self) -> ReplicaSet:
        """The set as the leader knows it. Asks again if the leader ceases to lead."""
        found: list[ReplicaSet] = []

        def ask() -> bool:
            with suppress(RocketMQError, KeyError):  # KeyError: no broker has registered yet
                table = self._admin.replica_sets(self.addrs[self.leader()], [BROKER_NAME]).replicas_info_table
                found.append(table[BROKER_NAME])
            return bool(found)

        until(ask)
        return found[0]

    def in_sync_ids(self) -> list[int]:
        return [each.broker_id for each in self.known().in_sync_replicas]


@contextmanager
def sending(two: BrokerSet, kept: list[bytes]) -> Iterator[None]:
    """Sends steadily to whichever broker accepts; ``kept`` gets the acknowledged bodies."""

    def run(has_ended: threading.Event) -> None:
        number = 0
        with AdminClient(two.namesrv.namesrv_addr) as admin:
            mine = dataclasses.replace(two, admin=admin)
            while not has_ended.is_set():
                for broker in (1, 2):
                    number += 1
                    body = b"kept %d" % number
                    with suppress(RocketMQError):
                        if mine.send(broker, body) is SendStatus.SEND_OK:
                            kept.append(body)

    with beside(run):
        yield


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_controllers_and_members_are_killed_under_sends(tmp_path: Path, stack: ExitStack) -> None:
    etcd = stack.enter_context(EtcdGroup(tmp_path / "etcd", 3))
    namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
    admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
    controllers = Controllers(tmp_path, etcd, admin)
    stack.callback(lambda: [each.stop() for each in controllers.servers.values()])
    first = controllers.leader()
    two = BrokerSet(tmp_path, ";".join(controllers.addrs), namesrv, admin)
    stack.callback(lambda: [each.stop() for each in two.brokers.values()])

    two.start(1)
    until(lambda: two.takes(1))
    two.start(2)
    until(lambda: controllers.in_sync_ids() == [1, 2])
    follower = next(number for number in controllers.servers if number != first)
    with pytest.raises(RefusedError, match="not in leader state"):
        admin.replica_sets(controllers.addrs[follower], [BROKER_NAME])
    assert admin.controller_metadata(controllers.addrs[follower]).controller_leader_address == controllers.addrs[first]

    kept: list[bytes] = []
    before = controllers.known()
    with sending(two, kept):
        controllers.kill(first)
        second = controllers.leader()
        known = controllers.known()
        assert (known.master_broker_id, known.master_epoch) == (before.master_broker_id, before.master_epoch)
        controllers.start(first)
        etcd.kill(0)
        controllers.leader()
        count = len(kept)
        until(lambda: len(kept) > count + 20)
        until(lambda: _is_elected(admin, controllers, 2))
        until(lambda: controllers.in_sync_ids() == [1, 2])
        count = len(kept)
        until(lambda: len(kept) > count + 20)
        two.brokers[2].stop(signal.SIGKILL)
        until(lambda: two.takes(1))
        etcd.start(0)
        two.start(2)
        until(lambda: controllers.in_sync_ids() == [1, 2])
        os.kill(etcd.pid(1), signal.SIGSTOP)
        try:
            count = len(kept)
            until(lambda: len(kept) > count + 20)
            controllers.leader()
        finally:
            os.kill(etcd.pid(1), signal.SIGCONT)
    assert second != first
    for broker in (1, 2):
        until(lambda: _has(two, broker, kept))  # noqa: B023


def _is_elected(admin: AdminClient, controllers: Controllers, broker_id: int) -> bool:
    """Retried until it succeeds, as an operator would: a controller that has just begun to lead elects no broker
    yet."""
    try:
        admin.elect_master(controllers.addrs[controllers.leader()], CLUSTER, BROKER_NAME, broker_id, 0)
    except RefusedError as error:
        return "still alive" in error.remark and controllers.known().master_broker_id == broker_id
    except RocketMQError:
        return False
    return True


def _has(two: BrokerSet, broker: int, kept: list[bytes]) -> bool:
    try:
        found = [body for body in two.bodies(broker) if body != PROBE]
    except RocketMQError:
        return False
    return set(kept) <= set(found)


def test_etcd_is_away_for_a_while(tmp_path: Path, stack: ExitStack) -> None:
    """The controllers log it, refuse requests, and come back with everything. One that starts meanwhile waits for
    etcd."""
    etcd = stack.enter_context(EtcdGroup(tmp_path / "etcd", 1))
    admin = stack.enter_context(AdminClient("127.0.0.1:1"))
    controllers = Controllers(tmp_path, etcd, admin, 2)
    stack.callback(lambda: [each.stop() for each in controllers.servers.values()])
    first = controllers.leader()
    admin.call(controllers.addrs[first], 1013, _applied(1))
    etcd.kill(0)
    until(lambda: not controllers.leaders())
    with pytest.raises(RefusedError) as caught:
        admin.call(controllers.addrs[first], 1013, _applied(2))
    assert caught.value.code == 2007
    controllers.kill(1 - first)
    controllers.start(1 - first)
    for server in controllers.servers.values():
        until(lambda: "event=etcd-failed" in server.log_tail())  # noqa: B023
    etcd.start(0)
    leader = controllers.leader()
    sets = admin.replica_sets(controllers.addrs[leader], [BROKER_NAME]).replicas_info_table
    assert [each.broker_id for each in sets[BROKER_NAME].not_in_sync_replicas] == [1]


def test_apaches_brokers_and_mqadmin_follow_the_leader(tmp_path: Path, stack: ExitStack) -> None:
    etcd = stack.enter_context(EtcdGroup(tmp_path / "etcd", 1))
    namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
    admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
    controllers = Controllers(tmp_path, etcd, admin, 2)
    stack.callback(lambda: [each.stop() for each in controllers.servers.values()])
    brokers = []
    for broker_id in (1, 2):
        settings = {**SETTINGS, **CONTROLLER_MODE, "controllerAddr": ";".join(controllers.addrs)}
        replica = ApacheBroker(tmp_path / f"broker-{broker_id}", settings, namesrv.namesrv_addr)
        brokers.append(stack.enter_context(replica))
        until(lambda: controllers.in_sync_ids() == list(range(1, broker_id + 1)))  # noqa: B023
    first = controllers.leader()
    controllers.kill(first)
    second = controllers.leader()
    assert second != first
    controllers.start(first)
    with Mqadmin(namesrv.namesrv_addr, tmp_path / "mqadmin") as mqadmin:
        meta = mqadmin("getControllerMetaData", "-a", controllers.addrs[first])
        assert f"#ControllerLeaderAddress\t{controllers.addrs[second]}" in meta
        assert "#SyncStateSetNums\t2" in mqadmin("getSyncStateSet", "-a", controllers.addrs[first], "-b", BROKER_NAME)
    brokers[0].kill()
    until(lambda: controllers.known().master_broker_id == 2)
    queue = MessageQueue("Kept", BROKER_NAME, 0)

    def is_stored() -> bool:
        with suppress(RocketMQError):
            sent = admin.send_message(brokers[1].broker_addr, queue, Message("Kept", b"x"))
            return sent.status is SendStatus.SEND_OK
        return False

    until(is_stored)


def test_etcd_with_users_and_certificates(tmp_path: Path, stack: ExitStack) -> None:
    """Controllers use a certificate and a password, and their user may touch only their keys. Wrong password, changed
    password and a restart of etcd: none of them ends the controllers."""
    authority = Authority(tmp_path)
    etcd = stack.enter_context(EtcdGroup(tmp_path / "etcd", 1, authority))
    admin = stack.enter_context(AdminClient("127.0.0.1:1"))
    root = [{"name": "root", "password": "r"}, {"user": "root", "role": "root"}]
    prefix, end = (base64.b64encode(key).decode() for key in (b"/rmqserver/group1/", b"/rmqserver/group10"))
    permission = {"permType": "READWRITE", "key": prefix, "range_end": end}
    for path, body in (
        ("role/add", {"name": "root"}), ("user/add", root[0]), ("user/grant", root[1]),
        ("role/add", {"name": "controllers"}), ("role/grant", {"name": "controllers", "perm": permission}),
        ("user/add", {"name": "c", "password": "first"}), ("user/grant", {"user": "c", "role": "controllers"}),
        ("enable", {}),
    ):  # fmt: skip
        etcd.administer(f"/v3/auth/{path}", body)
    password, shown = tmp_path / "password", authority.sign("controller", has_common_name=False)
    password.write_text("wrong")
    settings = (
        "etcdUserName=c", f"etcdPasswordPath={password}", f"etcdCaPath={authority.cert}", f"etcdCertPath={shown.cert}",
        f"etcdKeyPath={shown.key}",
    )  # fmt: skip
    controllers = Controllers(tmp_path, etcd, admin, 2, *settings)
    stack.callback(lambda: [each.stop() for each in controllers.servers.values()])
    for server in controllers.servers.values():
        until(lambda: "authentication failed" in server.log_tail())  # noqa: B023
    password.write_text("first\n")
    first = controllers.leader()
    admin.call(controllers.addrs[first], 1013, _applied(1))

    token = str(etcd.administer("/v3/auth/authenticate", root[0])["token"])
    etcd.administer("/v3/auth/user/changepw", {"name": "c", "password": "second"}, token)
    password.write_text("second\n")
    until(lambda: _takes(admin, controllers, 2))
    etcd.kill(0)
    until(lambda: not controllers.leaders())
    etcd.start(0)
    until(lambda: _takes(admin, controllers, 3))
    controllers.kill(controllers.leader())
    sets = admin.replica_sets(controllers.addrs[controllers.leader()], [BROKER_NAME]).replicas_info_table
    assert [each.broker_id for each in sets[BROKER_NAME].not_in_sync_replicas] == [1, 2, 3]
    for server in controllers.servers.values():
        assert "second" not in server.log_file.read_text()


def _takes(admin: AdminClient, controllers: Controllers, broker_id: int) -> bool:
    """Whether the controllers assign the id, also on a repeated request."""
    try:
        admin.call(controllers.addrs[controllers.leader()], 1013, _applied(broker_id))
    except RocketMQError:
        return False
    return True


def _applied(broker_id: int) -> ApplyBrokerIdHeader:
    return ApplyBrokerIdHeader(
        cluster_name=CLUSTER, broker_name=BROKER_NAME, applied_broker_id=broker_id, register_check_code="h:1;1"
    )
