"""``rmqserver`` from outside: what scripts that start it rely on."""

import contextlib
import itertools
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import UsageError
from rmqproto.headers.sending import SendHeaderV2
from rmqserver import core
from rmqserver.command_line import Options, plan
from rmqserver.process import entrance
from rmqserver.process.ready_line import check_ready_file
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service
from tests.support import servers
from tests.support.processes import free_ports
from tests.support.servers import Fresh, Server, until
from tests.support.wire import Wire

StartStandalone = Callable[..., Server]


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's servers are new interpreters, as with real users."""
    monkeypatch.setattr(servers, "IS_COLD", True)


def master_addr(namesrv_addr: str, broker: str = "broker-a") -> str | None:
    with Wire(namesrv_addr) as wire:
        return wire.cluster_addrs().get(broker, {}).get(0)


def fails(*args: str | Path) -> tuple[int, str]:
    """Runs a server that cannot start; returns its exit status and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "rmqserver", *map(str, args)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr


# --- ready -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cold")
def test_ready_line_on_standard_output_and_in_the_file(start_standalone: StartStandalone, tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    server = start_standalone("--ready-file", ready_file, "--data", tmp_path / "store")
    assert json.loads(ready_file.read_text()) == server.ready
    assert list(server.ready) == ["event", "pid", "namesrv_addr", "broker_addr", "store_dir", "core", "ready_ms"]
    assert (server.ready["event"], server.ready["pid"], server.ready["core"]) == ("ready", server.pid, core.NAME)
    assert server.store_dir == tmp_path / "store"
    assert master_addr(server.namesrv_addr) == server.broker_addr, "registered before it says that it is ready"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["ready.json"]


def test_a_nameserver_leaves_out_what_it_has_not(tmp_path: Path) -> None:
    with servers.namesrv(tmp_path) as server:
        assert list(server.ready) == ["event", "pid", "namesrv_addr", "ready_ms"]


def test_settings_list_what_is_true(server: Server, wire: Wire) -> None:
    lines = wire.ask(RequestCode.GET_BROKER_CONFIG).body.decode().splitlines()
    assert f"listenPort={server.broker_addr.rpartition(':')[2]}" in lines
    assert f"storePathRootDir={server.store_dir}" in lines
    assert f"storePathCommitLog={server.store_dir}/commitlog" in lines


def test_the_route_of_a_topic_is_there_when_its_creation_is_answered(
    wire: Wire, namesrv_wire: Wire, fresh: Fresh
) -> None:
    for _ in range(20):
        topic = fresh("Created")
        wire.create_topic(topic)
        assert namesrv_wire.route(topic) is not None


def test_a_ready_file_that_cannot_be_written_is_told_before_anything_is_opened(tmp_path: Path) -> None:
    """It ended in a traceback, after the broker had been registered."""
    status, errors = fails("broker", "--namesrv", "127.0.0.1:1", "--ready-file", tmp_path / "missing" / "ready.json")
    assert (status, errors) == (
        2, f"rmqserver: error: --ready-file {tmp_path}/missing/ready.json: No such file or directory\n"
    )  # fmt: skip


# --- stop ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGHUP])  # SIGTERM: most other tests
def test_a_signal_stops_it_cleanly(start_standalone: StartStandalone, sig: signal.Signals) -> None:
    handler = signal.signal(sig, signal.SIG_DFL)  # under nohup the server would inherit that SIGHUP is ignored
    try:
        server = start_standalone()
    finally:
        signal.signal(sig, handler)
    assert (server.store_dir / "abort").exists()
    assert server.stop(sig) == 0
    assert not (server.store_dir / "abort").exists()
    assert (server.store_dir / "checkpoint").exists()
    assert (server.store_dir / "config/topics.json").exists()
    assert "event=stopped" in server.log_tail()


@pytest.mark.slow
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_starts_ends_it_without_a_traceback(sig: signal.Signals) -> None:
    """Some moments are in the imports, some in the start of the broker, some when it is ready. What Python itself does
    before is not ours."""
    program = "from rmqserver.__main__ import main; print('Python runs', flush=True); raise SystemExit(main())"
    command = [sys.executable, "-c", program, "standalone", "--namesrv-port", "0", "--port", "0"]
    usual = signal.signal(sig, signal.SIG_DFL)
    try:
        starts = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        for number, process in enumerate(starts):
            assert process.stdout.readline() == b"Python runs\n"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05 * (number + 1))
            process.send_signal(sig)
    finally:
        signal.signal(sig, usual)
    for process in starts:
        errors = process.communicate(timeout=60)[1].decode()
        assert "Traceback" not in errors, errors
        assert process.returncode in (0, -sig, 128 + sig)


def test_ctrl_c_in_the_first_import_is_no_traceback() -> None:
    program = (
        "import sys\n"
        "from rmqserver.__main__ import main\n"
        "class Interrupted:\n"
        "    def find_spec(self, *of):\n"
        "        raise KeyboardInterrupt\n"
        "sys.modules.pop('signal', None)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "raise SystemExit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, "namesrv"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.usefixtures("cold")
def test_a_kill_leaves_the_mark_and_the_store_starts_again(start_standalone: StartStandalone) -> None:
    server = start_standalone()
    server.stop(signal.SIGKILL)
    assert (server.store_dir / "abort").exists()
    again = start_standalone("--data", server.store_dir)
    assert again.stop() == 0


def test_a_start_logs_what_was_opened_and_what_is_promised(start_standalone: StartStandalone) -> None:
    server = start_standalone("--flush", "sync")
    with Wire(server.broker_addr) as wire:
        send = SendHeaderV2(topic="TBW102", queue_id=0, born_timestamp=1)
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, send, b"kept").code == 0
    server.stop(signal.SIGKILL)
    assert f"event=namesrv-opened addr={server.namesrv_addr} " in server.log_tail()
    opened = f"event=broker-opened name=broker-a cluster=DefaultCluster addr={server.broker_addr} "
    assert f"{opened}store={server.store_dir} found=new " in server.log_tail()
    assert "flush=sync promise='an acknowledged message survives kill -9 and a power cut'" in server.log_tail()
    again = start_standalone("--data", server.store_dir)
    assert "found=killed" in again.log_tail()
    assert "may take the last 500 ms" in again.log_tail()
    again.stop()
    assert "found=clean" in start_standalone("--data", server.store_dir).log_tail()


@pytest.mark.usefixtures("cold")
def test_a_write_that_failed_shows_in_the_exit_status(start_standalone: StartStandalone) -> None:
    """A limit on file sizes stands for a full or broken disk. The mark stays, because the next start must check the
    store. The limit also holds for standard error, which Python flushes last; a failure there is not the store's."""
    server = start_standalone()
    send = SendHeaderV2(topic="TBW102", queue_id=0, born_timestamp=1)
    with Wire(server.broker_addr) as wire:
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, send, b"kept").code == 0
        before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        answer = wire.ask(RequestCode.SEND_MESSAGE_V2, send, b"lost")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, answer.remark
        assert wire.ask(RequestCode.GET_BROKER_CONFIG).code == 0, "reads go on"
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)
    assert server.stop() == 1
    assert (server.store_dir / "abort").exists()


@pytest.mark.usefixtures("cold")
def test_a_temporary_store_is_named_and_removed(tmp_path: Path) -> None:
    log_file = tmp_path / "log"
    with Server("standalone", "--namesrv-port", "0", "--port", "0", *servers.SMALL, log_file=log_file) as server:
        assert server.store_dir.is_dir()
        assert f"event=temporary-store dir={server.store_dir}" in server.log_tail()
        assert server.stop() == 0
    assert not server.store_dir.exists()


def test_settings_and_key_values_of_the_nameserver_are_kept(tmp_path: Path) -> None:
    ask = {"namespace": "N", "key": "k"}
    with servers.namesrv(tmp_path, "--data", tmp_path / "data") as server, Wire(server.namesrv_addr) as wire:
        assert wire.ask(RequestCode.PUT_KV_CONFIG, {**ask, "value": "v"}).code == 0
        assert server.stop() == 0
    assert json.loads((tmp_path / "data/kvConfig.json").read_text()) == {"configTable": {"N": {"k": "v"}}}
    with servers.namesrv(tmp_path, "--data", tmp_path / "data") as server, Wire(server.namesrv_addr) as wire:
        assert wire.ask(RequestCode.GET_KV_CONFIG, ask).ext == {"value": "v"}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["closed", "full", "a pipe that nobody reads"])
def test_a_server_whose_ready_line_cannot_be_written_serves(target: str, tmp_path: Path) -> None:
    """It ended with a traceback. Its clients need no such line."""
    with contextlib.ExitStack() as files:
        reader, writer = os.pipe()
        os.close(reader)
        out = {"closed": None, "full": files.enter_context(open("/dev/full", "w"))}.get(target, writer)
        log_file = files.enter_context((tmp_path / "log").open("w"))
        close = ["sh", "-c", 'exec "$0" "$@" >&-'] if out is None else []
        process = subprocess.Popen(
            [*close, sys.executable, "-m", "rmqserver", "namesrv", "--port", "0"], stdout=out, stderr=log_file
        )
        os.close(writer)
    until(lambda: "event=ready-line-not-written to='standard output'" in (tmp_path / "log").read_text())
    process.terminate()
    assert process.wait(30) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()
    assert "Exception" not in (tmp_path / "log").read_text()


# --- ports and addresses ---------------------------------------------------------------------------------------------


def test_a_fixed_port_has_a_fast_one_below_it(start_standalone: StartStandalone) -> None:
    _, port = free_ports()
    server = start_standalone("--port", str(port))
    with Wire(f"127.0.0.1:{port - 2}") as wire:
        assert wire.ask(RequestCode.GET_BROKER_CONFIG).code == 0
    server.stop()
    with socket.create_server(("127.0.0.1", port - 2)):
        again = start_standalone("--port", str(port), "--data", server.store_dir)
        with Wire(again.broker_addr) as wire:
            assert wire.ask(RequestCode.GET_BROKER_CONFIG).code == 0
        assert again.stop() == 0
        assert again.log_file.read_text().count("event=no-fast-port") == 1


def test_a_port_that_has_none_below_it_has_no_fast_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two below 2 is 0, which is any free port."""
    port = free_ports()[1]
    monkeypatch.setattr(entrance, "FAST_PORT_DISTANCE", port)
    loop = Loop()
    door = entrance.Entrance(plan(Options(has_namesrv=True, has_broker=False)), loop)
    opened: list[int] = []
    monkeypatch.setattr(loop, "open", lambda host, port: (opened.append(port), Loop.open(loop, host, port))[1])
    try:
        assert door.listen_twice(port, Service("test", {})) == port
    finally:
        loop.close()
    assert opened == [port]
    assert "no-fast-port" in caplog.text


def test_any_free_port_has_a_fast_one_below_it(server: Server) -> None:
    """Apache's dashboard sends nearly all of its requests there."""
    host, _, port = server.broker_addr.rpartition(":")
    with Wire(f"{host}:{int(port) - 2}") as wire:
        assert wire.ask(RequestCode.GET_BROKER_CONFIG).code == 0


def test_what_is_advertised_is_registered(start_standalone: StartStandalone) -> None:
    server = start_standalone("--advertise", "127.0.0.77:1234")
    assert server.broker_addr == master_addr(server.namesrv_addr) == "127.0.0.77:1234"


@pytest.mark.parametrize("flag", ["--port", "--namesrv-port"])
def test_a_taken_port_is_an_error_and_the_store_is_not_touched(tmp_path: Path, flag: str) -> None:
    """For the nameserver's port, too, the hint named ``--port``."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ports = {"--port": "0", "--namesrv-port": "0", flag: port}
        status, text = fails("standalone", *itertools.chain(*ports.items()), "--data", tmp_path / "store")
        assert status == 2
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use\nhint: " in text
        assert flag in text.partition("hint: ")[2]
    assert not (tmp_path / "store").exists()


def test_a_store_in_use_is_an_error(server: Server) -> None:
    status, text = fails("standalone", "--namesrv-port", "0", "--port", "0", "--data", server.store_dir)
    assert status == 1
    assert f"in use by process {server.pid}" in text


def test_a_bad_setting_is_an_error_that_names_it() -> None:
    status, text = fails("standalone", "--set", "flushDiskType=NEVER")
    assert status == 2
    assert "flushDiskType=NEVER" in text
    assert fails("broker", "--port", "70000")[0] == 2
    assert fails()[0] == 2


def test_a_connection_is_closed_when_nothing_comes_on_it_for_as_long_as_is_set(tmp_path: Path) -> None:
    soon = ("--set", "serverChannelMaxIdleTimeSeconds=1")
    with (
        servers.standalone(tmp_path / "broker", *soon) as broker,
        servers.namesrv(tmp_path / "namesrv", *soon) as namesrv,
        Wire(broker.broker_addr) as one,
        Wire(namesrv.namesrv_addr) as other,
    ):
        for wire in (one, other):
            with pytest.raises(EOFError):
                wire.receive()


# --- several processes -----------------------------------------------------------------------------------------------


def test_a_broker_registers_with_every_nameserver_and_none_that_is_down_holds_it_up(tmp_path: Path) -> None:
    down_port, port = free_ports()
    down_addr = f"127.0.0.1:{down_port}"
    with servers.namesrv(tmp_path / "first") as first:
        addrs = f"{first.namesrv_addr};{down_addr}"
        args = ("--port", str(port), "--set", "brokerName=broker-b", "--data", tmp_path / "store", *servers.SMALL)
        with Server("broker", "--namesrv", addrs, *args, log_file=tmp_path / "log") as broker:
            assert "namesrv_addr" not in broker.ready
            assert master_addr(first.namesrv_addr, "broker-b") == broker.broker_addr == f"127.0.0.1:{port}"
            assert f"event=register-failed namesrv={down_addr}" in broker.log_tail()
            late = servers.Server("namesrv", "--port", str(down_port), log_file=tmp_path / "late.log")
            with late:
                until(lambda: master_addr(down_addr, "broker-b") is not None)
                late.stop()
            assert broker.stop() == 0
        assert master_addr(first.namesrv_addr, "broker-b") is None
        assert "event=broker-unregistered name=broker-b" in first.log_tail()


def test_a_nameserver_that_was_restarted_learns_of_the_broker(tmp_path: Path) -> None:
    port = str(free_ports()[0])
    first = servers.namesrv(tmp_path, "--port", port)
    args = ("--port", "0", "--data", tmp_path / "store", *servers.SMALL)
    with first, Server("broker", "--namesrv", first.namesrv_addr, *args, log_file=tmp_path / "broker.log") as broker:
        first.stop(signal.SIGKILL)
        with Server("namesrv", "--port", port, log_file=tmp_path / "again.log") as again:
            until(lambda: master_addr(again.namesrv_addr) == broker.broker_addr)


def test_a_ready_file_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "ready.json"):
        with pytest.raises(UsageError, match=f"--ready-file {path}: "):
            check_ready_file(str(path))


def test_the_look_at_a_ready_file_leaves_nothing_behind(tmp_path: Path) -> None:
    check_ready_file(str(tmp_path / "ready.json"))
    assert list(tmp_path.iterdir()) == []
