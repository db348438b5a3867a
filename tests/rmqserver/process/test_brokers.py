"""``standalone --brokers``: several masters of one cluster, each a process, started and ended by one command."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from rmqserver.doors.grpc.codes import Code
from tests.support.grpc_client import GrpcClient
from tests.support.processes import is_gone
from tests.support.servers import SMALL, Server, until

NAMES = ["broker-a", "broker-b"]


def started(directory: Path, *args: str | Path) -> Server:
    directory.mkdir(exist_ok=True)
    ports = ("--namesrv-port", "0", "--port", "0")
    return Server("standalone", "--brokers", "2", *ports, *SMALL, *args, log_file=directory / "log")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("brokers"), "--listen", "0.0.0.0") as server:
        yield server


@pytest.fixture
def admin(brokers: Server) -> Iterator[AdminClient]:
    with AdminClient(brokers.namesrv_addr) as client:
        yield client


def send(admin: AdminClient, addr: str, topic: str) -> bool:
    try:
        sent = admin.send_message(addr, MessageQueue(topic, "", 0), Message(topic, b"x"))
    except RocketMQError:
        return False
    return sent.status is SendStatus.SEND_OK


def brokers_of(admin: AdminClient, topic: str) -> list[str]:
    try:
        return sorted(each.broker_name for each in admin.topic_route(topic).queue_datas)
    except RocketMQError:
        return []


def test_each_is_a_process_with_a_store_and_clients_reach_them_where_they_reached_the_nameserver(
    brokers: Server, admin: AdminClient
) -> None:
    ready = brokers.ready
    assert ready["broker_addr"] == ready["broker_addrs"][0]
    assert [Path(each).name for each in ready["store_dirs"]] == NAMES
    assert all(Path(each, "commitlog").is_dir() for each in ready["store_dirs"])
    assert len({brokers.pid, *(each["pid"] for each in ready["brokers"])}) == 3
    known = admin.cluster_info().broker_addr_table
    ports = [addr.rpartition(":")[2] for addr in ready["broker_addrs"]]
    assert [known[name].broker_addrs for name in NAMES] == [{0: f"127.0.0.1:{port}"} for port in ports]


def test_a_first_send_creates_the_topic_on_all_and_changes_none(brokers: Server, admin: AdminClient) -> None:
    first, second = brokers.ready["broker_addrs"]
    assert send(admin, first, "Automatic")
    until(lambda: brokers_of(admin, "Automatic") == NAMES)
    assert admin.topic_config(second, "Automatic") == admin.topic_config(first, "Automatic")
    topic = admin.topic_config(first, "Automatic")
    topic.topic_name, topic.read_queue_nums = "Mine", 16
    admin.create_topic(second, topic)
    assert send(admin, first, "Mine")
    assert send(admin, first, "After")
    until(lambda: brokers_of(admin, "After") == NAMES)
    assert admin.topic_config(second, "Mine").read_queue_nums == 16


@pytest.mark.slow
def test_one_that_is_killed_is_started_again_on_its_store_and_ports(tmp_path: Path) -> None:
    more = ("--data", tmp_path / "store", "--set", "grpcServerPort=0")
    with started(tmp_path, *more) as server, AdminClient(server.namesrv_addr) as admin:
        first, second = server.ready["broker_addrs"]
        assert server.ready["store_dirs"] == [str(tmp_path / "store" / name) for name in NAMES]
        assert send(admin, first, "T")
        killed = server.ready["brokers"][0]["pid"]
        os.kill(killed, signal.SIGKILL)
        until(lambda: is_gone(killed))
        assert send(admin, second, "T")
        until(lambda: send(admin, first, "T"))
        assert admin.max_offset(first, "T", 0) >= 2  # what was acknowledged before is there
        assert "event=broker-ended name=broker-a how='SIGKILL'" in server.log_file.read_text()
        with GrpcClient(server.ready["grpc_addr"]) as client:
            assert client.call("QueryRoute", {"topic": {"name": "T"}}).status.code == Code.OK
        assert server.stop() == 0
    assert not list(tmp_path.rglob("abort"))


@pytest.mark.slow
def test_no_broker_outlives_a_killed_command(tmp_path: Path) -> None:
    server = started(tmp_path)
    server.stop(signal.SIGKILL)
    until(lambda: all(is_gone(each["pid"]) for each in server.ready["brokers"]))


@pytest.mark.slow
def test_a_temporary_store_is_removed_when_all_have_ended(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        assert server.store_dir.is_dir()
        assert server.stop(signal.SIGINT) == 0
    assert not server.store_dir.exists()
    assert all(is_gone(each["pid"]) for each in server.ready["brokers"])
