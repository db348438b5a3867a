"""A controller as a process: its port, its notices to brokers, kill and restart."""

import signal
import socket
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.headers.controller import ApplyBrokerIdHeader, ElectMasterHeader, ReplicaInfoHeader
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire.command import Command, FrameReader
from tests.support import servers
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
