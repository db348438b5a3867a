"""``doctor`` and ``check ha`` on real sets in real states: a slave that is killed, behind or ahead; a frozen master; a
lost controller; two masters of one name."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from tests.rmqadmin.conftest import Rmqadmin
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, BrokerSet, set_under
from tests.support.processes import free_ports
from tests.support.servers import Server, until

pytestmark = pytest.mark.slow


def bad(ran_items: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """The findings about sets that are not OK, by check and subject."""
    checks = ("in-sync", "replica-lag", "masters", "controllers")
    return {
        (item["check"], item["subject"]): f"{item['severity']}: {item['what']} -> {item['fix']}"
        for item in ran_items
        if item["check"] in checks and item["severity"] != "ok"
    }


def says_master(admin: AdminClient, broker: Server) -> bool:
    """The broker closes its connections when its role changes."""
    try:
        return admin.ha_status(broker.broker_addr).master
    except RocketMQError:
        return False


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Server]:
    with servers.controller(tmp_path / "controller") as running:
        yield running


@pytest.fixture
def controlled(controller: Server, tmp_path: Path) -> Iterator[BrokerSet]:
    """Two of our brokers under one controller."""
    with set_under(tmp_path, controller.controller_addr) as two:
        two.join(1, 2, minInSyncReplicas="2", slaveTimeout="20000")
        yield two


def test_a_set_that_loses_a_slave_and_then_its_controller(
    run: Rmqadmin, controller: Server, controlled: BrokerSet
) -> None:
    there = ("-n", controlled.namesrv.namesrv_addr)
    until(lambda: run("check", "ha", *there, "-b", BROKER_NAME, "--in-sync", "2").status == 0)
    ran = run("-o", "json", "doctor", "--quick", "--all", *there)
    well = {(item["check"], item["subject"]): item["what"] for item in ran.items if item["severity"] == "ok"}
    assert well["access", controller.controller_addr] == "listens only on 127.0.0.1"
    assert bad(ran.items) == {}
    assert well["in-sync", BROKER_NAME].startswith("all 2 are in sync, the master is ")
    assert well["replica-lag", f"{BROKER_NAME}/2"] == "has all that its master has"
    assert well["controllers", controller.controller_addr].endswith("leads, 1 controller answer")

    infos = [controlled.admin.broker_runtime_info(controlled.brokers[number].broker_addr) for number in (1, 2)]
    assert ["masterLeaseLeftMs" in info for info in infos] == [True, False]

    slave_addr = controlled.brokers[2].broker_addr
    controlled.brokers[2].stop(signal.SIGKILL)
    until(lambda: controlled.in_sync_ids() == [1])
    found = bad(run("-o", "json", "doctor", "--quick", *there).items)
    assert found["in-sync", BROKER_NAME].startswith("error: takes no messages: 1 in sync, and minInSyncReplicas=2 -> ")
    assert f"Start {BROKER_NAME}/2 at {slave_addr}, which is dead" in found["in-sync", BROKER_NAME]
    checked = run("check", "ha", *there, status=2)
    assert checked.out.startswith("CRITICAL - broker-a: takes no messages: 1 in sync, and minInSyncReplicas=2")
    assert "'broker-a in sync'=1;;;0" in checked.out

    fix = found["in-sync", BROKER_NAME].partition("fewer: rmqadmin ")[2]
    assert run(*fix.split(), *there).status == 0, fix
    found = bad(run("-o", "json", "doctor", "--quick", *there).items)
    assert found["in-sync", BROKER_NAME].startswith("warning: one of 2 is in sync: if ")
    assert run("check", "ha", *there).status == 1
    assert run("check", "ha", *there, "--in-sync", "2").status == 2

    controller.stop(signal.SIGKILL)
    found = bad(run("-o", "json", "doctor", "--quick", *there).items)
    subject = "controllers", controller.controller_addr
    assert found[subject].startswith("error: no controller answers (cannot connect to ")
    assert run("check", "ha", *there).status == 2


def test_a_master_that_was_frozen_and_comes_back_as_a_slave(
    run: Rmqadmin, controller: Server, controlled: BrokerSet
) -> None:
    there = ("-n", controlled.namesrv.namesrv_addr)
    until(controlled.controller_is_settled)
    frozen = controlled.brokers[1]
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        until(lambda: controlled.known.master_broker_id == 2)
        until(lambda: says_master(controlled.admin, controlled.brokers[2]))
        found = bad(run("-o", "json", "doctor", "--quick", *there, "--timeout", "1").items)
        assert "takes no messages: 1 in sync" in found["in-sync", BROKER_NAME]
        assert "claim to be" not in found.get(("masters", BROKER_NAME), ""), "who does not answer claims nothing"
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    until(lambda: controlled.in_sync_ids() == [1, 2])
    until(lambda: run("check", "ha", *there).status == 0)


def test_two_masters_of_one_name(run: Rmqadmin, tmp_path: Path) -> None:
    """Each broker is known to only one of two name servers, as after a wrong start by hand."""
    with ExitStack() as stack:
        namesrvs = [stack.enter_context(servers.namesrv(tmp_path / f"n{at}")) for at in (1, 2)]
        brokers = [
            stack.enter_context(servers.broker(tmp_path / f"b{at}", namesrv.namesrv_addr, BROKER_NAME))
            for at, namesrv in enumerate(namesrvs)
        ]
        there = ("-n", ";".join(each.namesrv_addr for each in namesrvs))
        said = bad(run("-o", "json", "doctor", "--quick", *there).items)["masters", BROKER_NAME]
        assert said.startswith("error: 2 brokers claim to be its master: ")
        assert all(each.broker_addr in said for each in brokers)
        checked = run("check", "ha", *there, "-b", BROKER_NAME)
        assert (checked.status, checked.out.startswith("CRITICAL - broker-a: 2 brokers claim to be")) == (2, True)


MASTER = ("--set", "brokerRole=SYNC_MASTER", "--set", "inSyncReplicas=2", "--set", "slaveTimeout=20000")
SLAVE = ("--set", "brokerRole=SLAVE", "--set", "brokerId=1", "--set", "haSendHeartbeatInterval=200")


class PlainPair:
    """A master and its slave, without a controller."""

    def __init__(self, stack: ExitStack, work: Path):
        self._stack, self.work = stack, work
        self.namesrv = stack.enter_context(servers.namesrv(work / "namesrv"))
        self._port = free_ports()[1]
        self.start_master()
        self.start_slave()
        self.admin = stack.enter_context(AdminClient(self.namesrv.namesrv_addr, timeout_s=60))
        until(lambda: self.admin.ha_status(self.master.broker_addr).in_sync_slave_nums == 1)

    def _broker(self, store: str, *settings: str) -> Server:
        return self._stack.enter_context(
            servers.broker(self.work / store, self.namesrv.namesrv_addr, BROKER_NAME, *settings)
        )

    def start_slave(self) -> None:
        self.slave = self._broker("slave", *SLAVE)

    def start_master(self) -> None:
        """Starts the master, always on the same port."""
        self.master = self._broker("master", *MASTER, "--port", str(self._port))

    def send(self, *, waits: bool = True) -> SendStatus:
        properties = {} if waits else {"WAIT": "false"}
        message = Message("Kept", bytes(1000), properties=properties)
        return self.admin.send_message(self.master.broker_addr, MessageQueue("Kept", BROKER_NAME, 0), message).status


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[PlainPair]:
    with ExitStack() as stack:
        yield PlainPair(stack, tmp_path)


def test_a_slave_that_is_behind_and_one_that_is_ahead(run: Rmqadmin, pair: PlainPair) -> None:
    there = ("-n", pair.namesrv.namesrv_addr)
    pair.send()
    until(lambda: run("check", "ha", *there, "--in-sync", "2").status == 0)
    store = pair.work / "old-master"
    until(lambda: pair.admin.ha_status(pair.master.broker_addr).ha_connection_info[0].diff == 0)

    os.kill(pair.slave.pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            pair.send(waits=False)
        ran = run("-o", "json", "doctor", "--quick", *there, "--timeout", "1")
        assert ("replica-lag", f"{BROKER_NAME}/1") not in bad(ran.items), "who does not answer is told as reachable"
    finally:
        os.kill(pair.slave.pid, signal.SIGCONT)
    until(lambda: run("check", "ha", *there).status == 0)

    # keep the master's store as it is, then let the slave get more than that
    pair.master.stop()
    shutil.copytree(pair.master.store_dir, store)
    pair.start_master()
    until(lambda: pair.admin.ha_status(pair.master.broker_addr).in_sync_slave_nums == 1)
    for _ in range(3):
        assert pair.send() is SendStatus.SEND_OK
    pair.master.stop()
    shutil.rmtree(pair.master.store_dir)
    store.rename(pair.master.store_dir)
    pair.start_master()

    def found() -> dict[tuple[str, str], str]:
        return bad(run("-o", "json", "doctor", "--quick", *there).items)

    until(lambda: ("replica-lag", f"{BROKER_NAME}/1") in found())
    said = found()["replica-lag", f"{BROKER_NAME}/1"]
    assert said.startswith("error: its log is ")
    assert f"longer than that of its master {pair.master.broker_addr}" in said
    assert "producers get FLUSH_SLAVE_TIMEOUT" in found()["in-sync", BROKER_NAME]
    assert run("check", "ha", *there).status == 2


def test_how_far_a_slave_is_behind_in_bytes_and_in_time(run: Rmqadmin, pair: PlainPair) -> None:
    """The slave may receive a thousand bytes a second, of 240,000. Its log then ends within a message. The age used to
    be unknown there, and an alert by age stayed silent."""
    there = ("-n", pair.namesrv.namesrv_addr)
    pair.send()
    pair.admin.update_broker_config(
        pair.master.broker_addr, {"haFlowControlEnable": "true", "maxHaTransferByteInSecond": "1000"}
    )
    for _ in range(200):
        pair.send(waits=False)

    def measured() -> dict[str, float]:
        (row,) = run("-o", "json", "check", "ha", *there, "-w", "0s", "-c", "1TiB").items
        return dict(row["values"])

    def end_of_slave() -> int:
        return pair.admin.ha_status(pair.slave.broker_addr).ha_client_runtime_info.max_offset

    until(lambda: measured().get(f"{BROKER_NAME}/1 behind", 0) > 100_000)
    begin = end_of_slave()
    until(lambda: end_of_slave() > begin)
    with pytest.raises(RocketMQError):  # no message begins where its log ends
        pair.admin.view_message(pair.master.broker_addr, end_of_slave())
    until(lambda: measured().get(f"{BROKER_NAME}/1 age", 0) > 0.001)
    late = run("check", "ha", *there, "-w", "1TiB", "-c", "1KiB", status=2)
    assert "KiB behind its master" in late.out
    assert run("check", "ha", *there, "-w", "1TiB").status == 0
