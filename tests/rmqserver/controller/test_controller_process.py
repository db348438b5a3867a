"""A controller as a process: its port, its notices to brokers, kill and restart."""

import signal
import socket
from pathlib import Path

import pytest

from rmqclient.message import SendStatus
from rmqproto.codes import RequestCode as R
from rmqproto.headers.controller import ApplyBrokerIdHeader, ElectMasterHeader, ReplicaInfoHeader
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire.command import Command, FrameReader
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PATIENT, set_under
from tests.support.processes import free_ports
from tests.support.servers import until
from tests.support.wire import TIMEOUT_S, Wire

NAME = "broker-a"


def told(listener: socket.socket) -> Command:
    """The first request on the first connection."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(TIMEOUT_S)
        reader = FrameReader()
        while True:
            found = reader.feed(connection.recv(1 << 16))
            if found:
                return found[0]


def test_a_master_is_elected_told_and_remembered(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT_S)
        host, port = listener.getsockname()
        with servers.controller(tmp_path) as server, Wire(server.controller_addr) as wire:
            check_code = f"{host}:{port};1"
            applied = ApplyBrokerIdHeader(
                cluster_name="c", broker_name=NAME, applied_broker_id=1, register_check_code=check_code
            )
            assert wire.ask(R.CONTROLLER_APPLY_BROKER_ID, applied).code == 0
            beat = BrokerHeartbeatHeader(cluster_name="c", broker_addr="", broker_name=NAME, broker_id=1)
            wire.tell(R.BROKER_HEARTBEAT, beat)
            elected = ElectMasterHeader(cluster_name="c", broker_name=NAME, broker_id=1)
            assert wire.ask(R.CONTROLLER_ELECT_MASTER, elected).code == 0
            notice = told(listener)
            assert (notice.code, notice.flag & 2) == (R.NOTIFY_BROKER_ROLE_CHANGED, 2)
            assert notice.ext["masterAddress"] == f"{host}:{port}"
            assert notice.body == b'{"syncStateSet":[1],"syncStateSetEpoch":1}'
            before = wire.ask(R.CONTROLLER_GET_REPLICA_INFO, ReplicaInfoHeader(broker_name=NAME))
            with pytest.raises(RuntimeError, match="another controller keeps its state there"):
                servers.controller(tmp_path)
            server.stop(signal.SIGKILL)
    with servers.controller(tmp_path) as server:
        with Wire(server.controller_addr) as wire:
            after = wire.ask(R.CONTROLLER_GET_REPLICA_INFO, ReplicaInfoHeader(broker_name=NAME))
            assert (after.ext, after.body) == (before.ext, before.body)
            meta = wire.ask(R.CONTROLLER_GET_METADATA_INFO)
            assert meta.ext["controllerLeaderAddress"] == server.controller_addr
        assert server.stop() == 0


pytestmark = pytest.mark.slow  # a controller elects nobody in its first ten seconds


def test_a_set_outlives_its_controller(tmp_path: Path) -> None:
    port = str(free_ports()[0])
    with (
        servers.controller(tmp_path / "controller", "--port", port) as first,
        set_under(tmp_path, first.controller_addr) as two,
    ):
        two.start(1, **PATIENT)
        until(lambda: two.takes(1))
        two.join(2, **PATIENT)
        until(lambda: two.in_sync_ids() == [1, 2])
        before = two.known
        first.stop(signal.SIGKILL)
        assert two.send(1, b"without") is SendStatus.SEND_OK
        with servers.controller(tmp_path / "controller", "--port", port):
            until(lambda: two.known == before)
            until(two.controller_is_settled)
            two.admin.elect_master(two.controller_addr, "DefaultCluster", BROKER_NAME, 2, 0)
            until(lambda: two.takes(2))
            until(lambda: two.in_sync_ids() == [1, 2])
            assert (two.known.master_broker_id, two.known.master_epoch) == (2, before.master_epoch + 1)
            assert b"without" in two.bodies(2)
