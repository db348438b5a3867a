"""The controller of a set is killed. The brokers go on, and the controller comes back with the same set and can elect
another master."""

import signal
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import SendStatus
from rmqproto.bodies.replication import ReplicaSet
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PATIENT, BrokerSet
from tests.support.processes import free_ports
from tests.support.servers import until

pytestmark = pytest.mark.slow  # a controller elects nobody in its first ten seconds


def known(found: BrokerSet) -> ReplicaSet:
    return found.admin.replica_sets(found.controller_addr, [BROKER_NAME]).replicas_info_table[BROKER_NAME]


def in_sync_ids(found: BrokerSet) -> list[int]:
    return [each.broker_id for each in known(found).in_sync_replicas]


def test_a_set_outlives_its_controller(tmp_path: Path) -> None:
    port = str(free_ports()[0])
    with (
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        AdminClient(namesrv.namesrv_addr, timeout_s=60) as admin,
        servers.controller(tmp_path / "controller", "--port", port) as first,
    ):
        two = BrokerSet(tmp_path, first.controller_addr, namesrv, admin)
        try:
            two.start(1, **PATIENT)
            until(lambda: two.takes(1))
            two.start(2, **PATIENT)
            until(lambda: in_sync_ids(two) == [1, 2])
            before = known(two)
            first.stop(signal.SIGKILL)
            assert two.send(1, b"without") is SendStatus.SEND_OK
            with servers.controller(tmp_path / "controller", "--port", port):
                until(lambda: known(two) == before)
                until(lambda: two.controller_is_settled())
                admin.elect_master(two.controller_addr, "DefaultCluster", BROKER_NAME, 2, 0)
                until(lambda: two.takes(2))
                until(lambda: in_sync_ids(two) == [1, 2])
                assert (known(two).master_broker_id, known(two).master_epoch) == (2, before.master_epoch + 1)
                assert b"without" in two.bodies(2)
        finally:
            for server in two.brokers.values():
                server.stop()
