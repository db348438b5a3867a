"""``docs/controller.md``: its controller starts, and its commands work in order."""

import re
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.replication import SyncStateSet
from rmqproto.codes import RequestCode as R
from rmqproto.errors import RefusedError
from rmqproto.headers.controller import AlterSyncStateSetHeader, ApplyBrokerIdHeader, ElectMasterHeader
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire import fastjson
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.rmqadmin.pages.page_lines import ROOT, run_lines
from tests.support.servers import Server, until
from tests.support.wire import Wire

pytestmark = pytest.mark.slow  # the controller elects no master in its first ten seconds

PAGE = "docs/controller.md"
NAME = "broker-a"
LONG_MS = 600_000


def two_in_sync(brokers: Wire) -> None:
    """Sends the requests of two brokers over one connection, so that both are in sync. Their heartbeats ask for no
    answer, as Apache's: a master without a lease has none to give back."""
    for broker_id in (1, 2):
        applied = ApplyBrokerIdHeader(
            cluster_name=CLUSTER, broker_name=NAME, applied_broker_id=broker_id, register_check_code=f"h:{broker_id};1"
        )
        assert brokers.ask(R.CONTROLLER_APPLY_BROKER_ID, applied).code == 0
        beat = BrokerHeartbeatHeader(
            cluster_name=CLUSTER, broker_addr="", broker_name=NAME, broker_id=broker_id, heartbeat_timeout_mills=LONG_MS
        )
        brokers.tell(R.BROKER_HEARTBEAT, beat)
    elected = ElectMasterHeader(cluster_name=CLUSTER, broker_name=NAME, broker_id=1)
    assert brokers.ask(R.CONTROLLER_ELECT_MASTER, elected).code == 0
    wanted = fastjson.dumps(SyncStateSet(sync_state_set=[1, 2], sync_state_set_epoch=1))
    header = AlterSyncStateSetHeader(broker_name=NAME, master_broker_id=1, master_epoch=1)
    assert brokers.ask(R.CONTROLLER_ALTER_SYNC_STATE_SET, header, wanted).code == 0


def test_the_page_does_what_it_says(run: Rmqadmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = re.findall(r"^rmqserver (.*)$", (ROOT / PAGE).read_text(), re.MULTILINE)[0]
    words = line.replace("10.0.0.1", "127.0.0.1").replace("/data/", f"{tmp_path}/").split()
    with Server(*words, "--port", "0", log_file=tmp_path / "log") as server:
        addr = server.controller_addr
        with Wire(addr) as brokers, AdminClient("127.0.0.1:1") as admin:

            def is_settled() -> bool:
                try:
                    admin.clean_broker_data(addr, NAME, 0, broker_ids=[9])
                except RefusedError as error:
                    return "none of these ids" in error.remark
                return False

            two_in_sync(brokers)
            until(is_settled)
            said = run_lines(run, PAGE, {"10.0.0.1:9878": addr}, monkeypatch)
            assert any(b"h:2" in out and "electMaster" in line for line, out in said.items())
            assert admin.replica_sets(addr, [NAME]).replicas_info_table[NAME].master_broker_id == 2
        assert server.stop() == 0
