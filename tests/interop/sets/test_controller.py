"""Real brokers (``enableControllerMode``) and the real ``mqadmin`` with our controller. A set of two forms; its master
is killed, comes back, takes over again and freezes; the controller itself is killed too."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rmqadmin.core.health.facts import read_facts
from rmqadmin.core.health.finding import Grade
from rmqadmin.core.health.ha_checks import ha_findings, registered_brokers
from rmqadmin.core.servers.ha_sets import read_ha
from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.errors import RocketMQError
from tests.support import servers
from tests.support.broker_set import is_settled
from tests.support.processes import free_ports
from tests.support.servers import Server, until

from ..apache import ApacheBroker
from ..cluster import BROKER_NAME, CLUSTER_NAME, SETTINGS
from ..controllers import CONTROLLER_MODE
from ..mqadmin import Mqadmin

pytestmark = pytest.mark.interop

QUEUE = MessageQueue("TopicOfSets", BROKER_NAME, 0)


@dataclass
class Pair:
    """Two real brokers of one name, our nameserver and our controller."""

    tmp_path: Path
    namesrv: Server
    controller: Server
    admin: AdminClient
    brokers: dict[int, ApacheBroker] = field(default_factory=dict)
    """By the id that the controller assigned."""
    sent: list[bytes] = field(default_factory=list)

    def start(self, broker_id: int) -> None:
        before = self.brokers.get(broker_id)
        broker = ApacheBroker(
            self.tmp_path / f"broker-{broker_id}",
            {**SETTINGS, **CONTROLLER_MODE, "controllerAddr": self.controller.controller_addr},
            self.namesrv.namesrv_addr,
            ports=before.ports if before is not None else free_ports(),
        )
        self.brokers[broker_id] = broker.__enter__()

    def findings(self) -> list[str]:
        """The complaints of `rmqadmin doctor` about the set."""
        found = read_ha(self.admin, registered_brokers(read_facts(self.admin, None, with_tables=False)))
        now_ms = time.time_ns() // 1_000_000
        return [f"{one.check}: {one.what}" for one in ha_findings(found, now_ms) if one.grade is not Grade.OK]

    def set(self) -> ReplicaSet | None:
        found = self.admin.replica_sets(self.controller.controller_addr, [BROKER_NAME])
        return found.replicas_info_table.get(BROKER_NAME)

    def until_in_sync(self, master_id: int, *broker_ids: int) -> None:
        def is_so() -> bool:
            found = self.set()
            return (
                found is not None
                and found.master_broker_id == master_id
                and [each.broker_id for each in found.in_sync_replicas] == list(broker_ids)
            )

        until(is_so)

    def send(self, broker_id: int) -> None:
        """Sends until every in-sync replica has stored the message."""

        def is_stored() -> bool:
            body = b"%d" % len(self.sent)
            try:
                found = self.admin.send_message(self.brokers[broker_id].broker_addr, QUEUE, Message(QUEUE.topic, body))
            except RocketMQError:
                return False
            return found.status is SendStatus.SEND_OK

        until(is_stored)
        self.sent.append(b"%d" % len(self.sent))

    def bodies(self, broker_id: int) -> list[bytes]:
        found: list[bytes] = []
        addr = self.brokers[broker_id].broker_addr
        while messages := self.admin.pull_message(addr, QUEUE, len(found)).messages:
            found += [message.body for message in messages]
        return found

    def has_all(self, broker_id: int) -> bool:
        """Whether the broker has all sent messages. Messages that were refused may be there too."""
        return list(dict.fromkeys(self.bodies(broker_id))) == self.sent


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with (
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        servers.controller(tmp_path / "controller") as controller,
        AdminClient(namesrv.namesrv_addr) as admin,
    ):
        pair = Pair(tmp_path, namesrv, controller, admin)
        try:
            yield pair
        finally:
            for broker in pair.brokers.values():
                broker.kill()
            pair.controller.stop()


def test_two_real_brokers_live_under_our_controller(pair: Pair, tmp_path: Path) -> None:
    pair.start(1)
    pair.until_in_sync(1, 1)
    pair.start(2)
    pair.until_in_sync(1, 1, 2)
    for _ in range(20):
        pair.send(1)
    until(lambda: pair.findings() == [])

    # The controller is killed. The brokers go on, and the set is the same once the controller is back.
    before = pair.set()
    port = pair.controller.controller_addr.rpartition(":")[2]
    pair.controller.stop(signal.SIGKILL)
    pair.send(1)
    pair.controller = servers.controller(tmp_path / "controller", "--port", port)
    until(lambda: pair.set() == before)

    # The master is killed, once the controller again knows which brokers are alive.
    until(lambda: is_settled(pair.admin, pair.controller.controller_addr))
    pair.brokers[1].kill()
    killed_s = time.monotonic()
    pair.until_in_sync(2, 2)
    pair.send(2)
    print(f"\nunavailable for {time.monotonic() - killed_s:.2f} s")
    until(lambda: "in-sync: one of 2 is in sync" in "".join(pair.findings()))
    until(lambda: pair.has_all(2))
    pair.start(1)
    pair.until_in_sync(2, 1, 2)
    pair.send(2)
    until(lambda: pair.findings() == [])

    # Apache's mqadmin against our controller.
    addr = pair.controller.controller_addr
    with Mqadmin(pair.namesrv.namesrv_addr, tmp_path / "mqadmin") as mqadmin:
        meta = mqadmin("getControllerMetaData", "-a", addr)
        assert f"#ControllerLeaderAddress\t{addr}" in meta
        shown = mqadmin("getSyncStateSet", "-a", addr, "-b", BROKER_NAME)
        assert "#SyncStateSetNums\t2" in shown, shown
        assert "enableElectUncleanMaster" in mqadmin("getControllerConfig", "-a", addr)
        mqadmin("updateControllerConfig", "-a", addr, "-k", "notifyBrokerRoleChanged", "-v", "true")
        assert "EpochEntry{epoch=2, " in mqadmin("getBrokerEpoch", "-b", BROKER_NAME)
        out, err = mqadmin.run("cleanBrokerMetadata", "-a", addr, "-bn", BROKER_NAME, "-b", "1", "-c", CLUSTER_NAME)
        assert "is still alive, clean up failure" in out + err
        out, err = mqadmin.run("cleanBrokerMetadata", "-a", addr, "-bn", BROKER_NAME, "-b", "1", "-l")
        assert "is still alive, clean up failure" in out + err, "Apache's controller wipes the set"
        elected = mqadmin("electMaster", "-a", addr, "-b", "1", "-bn", BROKER_NAME, "-c", CLUSTER_NAME)
        assert f"#BrokerMasterAddr\t{pair.brokers[1].broker_addr}" in elected
    pair.until_in_sync(1, 1, 2)
    pair.send(1)
    until(lambda: pair.has_all(1))

    # The master freezes: its connections stay, but its heartbeats stop.
    os.kill(pair.brokers[1].broker_pid, signal.SIGSTOP)
    try:
        pair.until_in_sync(2, 2)
        pair.send(2)
    finally:
        os.kill(pair.brokers[1].broker_pid, signal.SIGCONT)
    pair.until_in_sync(2, 1, 2)
    until(lambda: pair.has_all(2))
