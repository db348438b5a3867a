"""``standalone --replicas`` and ``--brokers``: one command starts several brokers, and ends them."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError, UsageError
from rmqserver import command_line
from rmqserver.command_line import Options
from rmqserver.process.local_set import AGAIN_S, LocalSet, plan_local_set
from tests.support.broker_set import is_settled
from tests.support.processes import is_gone
from tests.support.quick import in_one_test
from tests.support.servers import SMALL, Server, until


def started(directory: Path, count: int, *args: str) -> Server:
    directory.mkdir(exist_ok=True)
    return Server(
        "standalone", "--replicas", str(count), "--namesrv-port", "0", "--port", "0", "--data", directory / "store",
        *SMALL, *args, log_file=directory / "log",
    )  # fmt: skip


def send(admin: AdminClient, addr: str) -> bool:
    try:
        sent = admin.send_message(addr, MessageQueue("T", "broker-a", 0), Message("T", b"x"))
    except RocketMQError:
        return False
    return sent.status is SendStatus.SEND_OK


def test_a_set_is_ready_when_all_are_in_sync(tmp_path: Path) -> None:
    with started(tmp_path, 2) as server, AdminClient(server.namesrv_addr) as admin:
        brokers = server.ready["brokers"]
        assert len(brokers) == 2
        assert server.broker_addr in [each["broker_addr"] for each in brokers]
        found = admin.replica_sets(server.controller_addr, ["broker-a"]).replicas_info_table["broker-a"]
        assert [each.broker_id for each in found.in_sync_replicas] == [1, 2]
        assert send(admin, server.broker_addr)
        # `doctor` used to warn of a controller that listens on 0.0.0.0, which it did not.
        assert admin.controller_config(server.controller_addr, with_own_defaults=True)["bindAddress"] == "127.0.0.1"
        assert server.stop() == 0
        assert all(is_gone(each["pid"]) for each in brokers)


@pytest.mark.slow
def test_another_takes_over_and_the_one_that_was_killed_comes_back(tmp_path: Path) -> None:
    with started(tmp_path, 3) as server, AdminClient(server.namesrv_addr) as admin:

        def in_sync() -> dict[int, str]:
            found = admin.replica_sets(server.controller_addr, ["broker-a"]).replicas_info_table["broker-a"]
            return {each.broker_id: each.broker_address for each in found.in_sync_replicas}

        all_of_them = in_sync()
        assert len(all_of_them) == 3
        assert send(admin, server.broker_addr)
        until(lambda: is_settled(admin, server.controller_addr))
        master = next(each for each in server.ready["brokers"] if each["broker_addr"] == server.broker_addr)
        os.kill(master["pid"], signal.SIGKILL)
        others = [addr for addr in all_of_them.values() if addr != server.broker_addr]
        until(lambda: any(send(admin, addr) for addr in others))
        until(lambda: in_sync() == all_of_them)
        assert server.stop() == 0
        assert "event=broker-ended" in server.log_file.read_text()


@pytest.mark.slow
def test_no_broker_outlives_the_command(tmp_path: Path) -> None:
    server = started(tmp_path, 2)
    server.stop(signal.SIGKILL)
    until(lambda: all(is_gone(each["pid"]) for each in server.ready["brokers"]))


@pytest.mark.slow
def test_a_broker_that_cannot_start_ends_the_command(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"mappedFileSizeCommitLog=x[^$]*broker-[12] has ended"):
        started(tmp_path, 2, "--set", "mappedFileSizeCommitLog=x")


@pytest.mark.trio
async def test_a_set_that_stops_does_not_start_a_broker_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mock_clock: trio.testing.MockClock
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(brokers: LocalSet, number: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sh", "-c", "echo {}; exec sleep 600"], stdout=subprocess.PIPE)
        started.append(process)
        brokers._processes[number] = process
        return process

    monkeypatch.setattr(LocalSet, "_start", start)
    _, plan = plan_local_set(Options(has_namesrv=True, has_broker=True, brokers=1, port=0))
    brokers = LocalSet(plan, "root", "namesrv", None)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(brokers.run)
            while 0 not in brokers.brokers:
                await trio.lowlevel.checkpoint()
            started[0].kill()
            while "event=broker-ended" not in caplog.text:
                await trio.lowlevel.checkpoint()
            await brokers.stop()
            mock_clock.jump(2 * AGAIN_S)
            await trio.testing.wait_all_tasks_blocked()
            assert len(started) == 1
            nursery.cancel_scope.cancel()
    finally:
        brokers.close()


@in_one_test(
    ({"replicas": 2, "seed": "seed.yaml"}, "--seed and --replicas"),
    ({"replicas": 2, "metrics_port": 1}, "--metrics-port and --replicas"),
    ({"replicas": 2, "port": 65_530}, "--port 65530: the last of 2 brokers would use 65541, past 65535"),
    ({"replicas": 2, "settings": ["authenticationEnabled=true"]}, "authenticationEnabled and --replicas"),
    ({"replicas": 2, "brokers": 2}, "--replicas and --brokers"),
    ({"brokers": 2, "seed": "seed.yaml"}, "--seed and --brokers"),
    ({"brokers": 2, "settings": ["brokerName=b"]}, "--set brokerName and --brokers"),
    ({"brokers": 2, "settings": ["authenticationEnabled=true"]}, "authenticationEnabled and --brokers"),
    ({"brokers": 2, "advertise": "host:65530"}, "--advertise 65530: the last"),
    ({"brokers": 2, "settings": ["grpcServerPort=x"]}, "grpcServerPort x: "),
)
def test_what_several_brokers_cannot_have(options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        plan_local_set(Options(has_namesrv=True, has_broker=True, **options))


def test_a_port_is_the_first_brokers_and_others_are_ten_higher() -> None:
    given = Options(
        has_namesrv=True, has_broker=True, brokers=2, port=5000, metrics_port=6000, advertise="[::1]:4000",
        settings=["haListenPort=7000", "grpcServerPort=0"],
    )  # fmt: skip
    _, plan = plan_local_set(given)
    assert plan.ports == (5000, 5010)
    assert plan.own_arguments == (
        (
            "--set=brokerName=broker-a", "--set=grpcServerPort=0", "--set=haListenPort=7000", "--metrics-port=6000",
            "--advertise=[::1]:4000",
        ),
        (
            "--set=brokerName=broker-b", "--set=grpcServerPort=0", "--set=haListenPort=7010", "--metrics-port=6010",
            "--advertise=[::1]:4010",
        ),
    )  # fmt: skip


def test_no_store_is_forgotten_when_there_are_more_brokers_or_fewer(tmp_path: Path) -> None:
    (tmp_path / "broker-a" / "commitlog").mkdir(parents=True)
    plan_local_set(Options(has_namesrv=True, has_broker=True, brokers=2, data=str(tmp_path)))
    with pytest.raises(UsageError, match="holds the stores of several brokers"):
        command_line.plan(Options(has_namesrv=True, has_broker=True, data=str(tmp_path)))
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(UsageError, match="holds the store of one broker") as refused:
        plan_local_set(Options(has_namesrv=True, has_broker=True, brokers=2, data=str(tmp_path)))
    assert f"{tmp_path}/broker-a" in str(refused.value.hint)
