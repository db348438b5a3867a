"""``bench`` on a real broker: its counts match what was stored and received. The runs are short and have no bars."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from rmqadmin.cli.parsing.command_building import help_parts
from rmqadmin.cli.registry import group_members
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.load.load_plan import LanePlan, LoadPlan, LoadQueue
from rmqadmin.core.load.load_rows import LoadFigures
from rmqadmin.core.load.load_run import BegunLoad, LoadRun, LoadSetting
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError
from rmqproto.message import properties as props
from tests.rmqadmin.conftest import Rmqadmin, Terminal, status
from tests.support.servers import Fresh, Server, topic_config, until

SHORT = ("--duration", "0.2", "--warm-up", "0")
LONGER = ("--duration", "0.7", "--warm-up", "0")
"""Long enough for three answers on a busy machine."""
QUEUES = 3


@pytest.fixture
def topic(server: Server, admin: AdminClient, fresh: Fresh) -> str:
    name = fresh("BenchTopic")
    admin.create_topic(server.broker_addr, topic_config(name, QUEUES))
    until(lambda: name in admin.topic_list())
    return name


def stored(admin: AdminClient, server: Server, topic: str) -> int:
    return sum(admin.max_offset(server.broker_addr, topic, queue_id) for queue_id in range(QUEUES))


@pytest.mark.parametrize(
    "more",
    [["--connections", "3", "--in-flight", "5", "--keys"], ["--batch", "7"], ["--rate", "300", "--processes", "2"]],
)
def test_what_is_counted_is_stored(
    rmqadmin: Rmqadmin, admin: AdminClient, server: Server, topic: str, more: list[str]
) -> None:  # fmt: skip
    ran = rmqadmin("-o", "json", "bench", "send", topic, *SHORT, "--interval", "0.1", "--tag", "TagB", *more)
    assert (ran.status, ran.err) == (0, "")
    summary = ran.document["summary"]
    assert summary["messages"] == sum(item["messages"] for item in ran.items) == stored(admin, server, topic) > 0
    assert (summary["queues"], summary["error_count"], summary["ended"]) == (QUEUES, 0, "its time was over")
    assert 0 < summary["p50_ms"] <= summary["p99_ms"] <= summary["max_ms"]
    queue = MessageQueue(topic, "broker-a", 0)
    found = admin.pull_message(server.broker_addr, queue, 0).messages
    assert all(message.body == b"x" * 128 and message.properties[props.TAGS] == "TagB" for message in found)
    assert len({message.properties[props.UNIQUE_KEY] for message in found}) == len(found)


def test_everything_that_is_there_is_consumed_and_no_group_moves(
    rmqadmin: Rmqadmin, admin: AdminClient, server: Server, topic: str
) -> None:  # fmt: skip
    sent = rmqadmin("-o", "json", "bench", "send", topic, *SHORT, "--rate", "500").document["summary"]["messages"]
    ran = rmqadmin("-o", "json", "bench", "consume", topic, *LONGER, "--connections", "2", status=0)
    assert ran.document["summary"]["messages"] == sent
    assert admin.groups_of_topic(server.broker_addr, topic) == []


def test_every_stamped_message_is_received(rmqadmin: Rmqadmin, topic: str) -> None:
    ran = rmqadmin("-o", "json", "bench", "latency", topic, *SHORT, "--rate", "200", status=0)
    summary = ran.document["summary"]
    assert summary["received"] == summary["sent"] == sum(item["received"] for item in ran.items) > 0
    assert 0 < summary["p50_ms"] <= summary["max_ms"]
    assert summary["error_count"] == 0


@pytest.mark.slow
def test_a_table_of_csv_has_a_line_an_interval(rmqadmin: Rmqadmin, topic: str) -> None:
    ran = rmqadmin("-o", "csv", "bench", "send", topic, *SHORT, "--interval", "0.1", "--rate", "100")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert len(rows) >= 2
    assert all(float(row["p99_ms"]) > 0 and int(row["error_count"]) == 0 for row in rows)


def test_a_topic_is_made_and_removed_on_request_only(
    rmqadmin: Rmqadmin, admin: AdminClient, topic: str, fresh: Fresh
) -> None:  # fmt: skip
    name = fresh("BenchMade")
    rmqadmin("bench", "send", name, *SHORT, status=5, err=f"there is no topic {name}")
    assert rmqadmin("bench", "send", name, "--remove").status == 2
    rmqadmin("bench", "send", name, "--create", "--dry-run", err=f"the topic {name} would be made in DefaultCluster")
    assert name not in admin.topic_list()
    ran = rmqadmin("-o", "json", "bench", "send", name, "--create", "--remove", "--queues", "2", *SHORT)
    assert (ran.status, ran.document["summary"]["queues"]) == (0, 2)
    assert name not in admin.topic_list()
    assert rmqadmin("bench", "send", topic, "--create", "--remove", *SHORT).status == 0
    assert topic in admin.topic_list()  # the topic existed before


def test_a_topic_in_use_is_flooded_only_if_that_was_said(
    rmqadmin: Rmqadmin, admin: AdminClient, server: Server, topic: str
) -> None:  # fmt: skip
    admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, b"mine"))
    ran = rmqadmin("bench", "send", topic, *SHORT, status=2)
    assert f"This floods the topic {topic}, which has 1 message and no groups" in ran.err
    assert stored(admin, server, topic) == 1
    assert rmqadmin("bench", "send", topic, "--yes", *SHORT).status == 0
    assert stored(admin, server, topic) > 1


@pytest.mark.slow
def test_a_person_is_asked_for_the_name(terminal: Terminal, admin: AdminClient, server: Server, topic: str) -> None:
    admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, b"mine"))
    child = terminal("bench", "send", topic, *SHORT)
    child.expect(f"Type {topic} to go on: ")
    child.sendline("no")
    assert status(child) == 1
    assert stored(admin, server, topic) == 1


def test_the_systems_own_topics_are_refused(rmqadmin: Rmqadmin) -> None:
    for name in ("SCHEDULE_TOPIC_XXXX", "%RETRY%Group"):
        ran = rmqadmin("bench", "send", name, "--yes", *SHORT)
        assert (ran.status, f"{name} is not a topic for a load" in ran.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["send", "consume", "latency"])
def test_ctrl_c_ends_with_the_figures_so_far(terminal: Terminal, topic: str, command: str) -> None:
    """They used to come after 5 seconds, averaged over these, with the answers under way as errors, and status 0."""
    words = (
        "--duration", "600", "--warm-up", "0", "--interval", "0.1", *(["--repeat"] if command == "consume" else []),
    )  # fmt: skip
    child = terminal("bench", command, topic, *words)
    child.expect(r"ELAPSED .*\r\n.*\r\n")
    child.kill(signal.SIGINT)
    child.expect("Errors: 0")
    child.expect("Ended: Ctrl-C")
    assert status(child) == 130
    assert "error" not in (child.before or "")


def test_what_an_interrupted_load_counts_is_stored(server: Server, admin: AdminClient, topic: str) -> None:
    words = ("bench", "send", topic, "--duration", "600", "--warm-up", "0", "--interval", "0.1")
    command = [sys.executable, "-m", "rmqadmin", *words, "-o", "csv"]
    environment = {**os.environ, "NAMESRV_ADDR": server.namesrv_addr}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdout is not None
        lines = [load.stdout.readline() for _ in range(2)]
        load.send_signal(signal.SIGINT)
        lines += load.stdout.read().splitlines()
    rows = list(csv.DictReader(lines))
    assert load.returncode == 130
    assert sum(int(row["messages"]) for row in rows) == stored(admin, server, topic) > 0
    assert sum(int(row["error_count"]) for row in rows) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_load_that_a_signal_ends_removes_its_topic(
    server: Server, admin: AdminClient, fresh: Fresh, number: signal.Signals
) -> None:
    name = fresh("BenchEnded")
    command = [
        sys.executable, "-m", "rmqadmin", "bench", "send", name, "-n", server.namesrv_addr, "--create", "--remove",
    ]  # fmt: skip
    with subprocess.Popen(
        [*command, "--rate", "50", "--duration", "60"], stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as load:  # fmt: skip
        until(lambda: name in admin.topic_list())
        load.send_signal(number)
        assert load.wait(60) == -number
    until(lambda: name not in admin.topic_list())


@pytest.mark.parametrize("is_lost", [False, True], ids=["", "what its handler raises is lost"])
def test_a_load_is_interrupted_before_it_is_under_way(is_lost: bool) -> None:
    """Its processes end at once, and what was made for it is undone."""
    broker = Closing()
    run, undone = run_on(broker.port), []
    begun = run._begin()

    def begin() -> BegunLoad:
        with suppress(KeyboardInterrupt if is_lost else ()):
            signal.raise_signal(signal.SIGINT)
        return begun

    run._begin = begin
    run._undo = lambda: undone.append(True)
    with pytest.raises(KeyboardInterrupt):
        list(run.intervals())
    assert undone == [True]
    broker.close()


def test_what_was_under_way_when_a_load_was_interrupted_is_no_error_and_counts_for_no_time() -> None:
    with Silent() as broker:
        run, began_s = run_on(broker.port), time.monotonic()
        for each in run.intervals():
            if each.begin_s == 0:
                signal.raise_signal(signal.SIGINT)
        assert time.monotonic() - began_s - run.total.seconds > 0.5, "the wait for answers"
    assert (run.is_stopped, run.total.errors, run.total.messages, run.unanswered) == (True, {}, 0, 2)
    figures = LoadFigures(run)
    assert figures.exit_status() == 130
    assert figures.remark() == "not answered yet, and so stored or not: 2 messages"


@pytest.mark.slow
def test_no_pager_takes_the_rows_of_a_load(terminal: Terminal, topic: str) -> None:
    """Once the screen was full, a pager used to take rows and figures while the load went on."""
    words = ("--duration", "2.5", "--warm-up", "0", "--interval", "0.05", "--rate", "200")
    child = terminal("bench", "send", topic, *words, env={"RMQADMIN_PAGER": "false"})
    assert status(child) == 0
    shown = child.before or ""
    assert "Ended: its time was over" in shown
    assert shown.count("\n") > 40


def test_a_dry_run_sends_nothing(rmqadmin: Rmqadmin, admin: AdminClient, server: Server, topic: str) -> None:
    (item,) = rmqadmin("-o", "json", "bench", "send", topic, "--dry-run", "--connections", "5").items
    assert item == {
        "broker_addr": server.broker_addr, "action": "send", "connections": 5, "queue_ids": [0, 1, 2],
    }  # fmt: skip
    assert stored(admin, server, topic) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [example for entry in group_members("bench") for example in help_parts(entry.load())[1]]
)
def test_an_example_in_a_help_works(rmqadmin: Rmqadmin, admin: AdminClient, server: Server, example: str) -> None:
    admin.create_topic(server.broker_addr, topic_config("LoadTopic"))
    until(lambda: "LoadTopic" in admin.topic_list())
    words = re.sub(r" --duration \d+", "", example).split()[1:]
    ran = rmqadmin(*words, *SHORT, *([] if "consume" in words else ["--yes"]), status=0)
    assert ran.out


def test_a_read_only_context_permits_no_load(
    run: Rmqadmin, admin: AdminClient, server: Server, topic: str
) -> None:  # fmt: skip
    ContextStore().add("guarded", {"namesrv_addr": server.namesrv_addr, "read_only": True})
    ContextStore().use("guarded")
    for command in ("send", "latency"):
        assert run("bench", command, topic, *SHORT, "--yes").status == 4
    assert stored(admin, server, topic) == 0


class Silent:
    """A server that accepts connections and answers nothing."""

    def __enter__(self) -> Silent:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=8)
        self.port = self._listening.getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()


class Closing:
    """A server that reads once from each connection and closes it."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.recv(1 << 16)
            connection.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


def run_on(port: int) -> LoadRun:
    lane = LanePlan("127.0.0.1", port, True, (LoadQueue(0),))
    plan = LoadPlan(
        topic="T", group="G", run_id="0" * 22, lanes=[lane, lane], size_bytes=1, in_flight=1, batch_size=1, rate=0.0,
        duration_s=600.0, warm_up_s=0.0, interval_s=0.1, timeout_s=5.0,
    )  # fmt: skip
    setting = LoadSetting("T", [f"127.0.0.1:{port}"], 1, 2, 1, 1, 1, 1)
    return LoadRun(lambda: BegunLoad(setting, [plan]), lambda: None)


def test_a_broker_that_goes_away_ends_it_with_errors() -> None:
    broker = Closing()
    run = run_on(broker.port)
    assert sum(each.error_count for each in run.intervals()) == 2
    assert all("clos" in what or "reset" in what for what in run.total.errors)
    broker.close()
    undone: list[bool] = []
    gone = run_on(broker.port)
    gone._undo = lambda: undone.append(True)
    with pytest.raises(ConnectError, match=f"cannot connect to 127.0.0.1:{broker.port}"):
        list(gone.intervals())
    assert undone == [True]
