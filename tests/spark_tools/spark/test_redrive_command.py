"""A redrive as the command does it: a session of its own for the plan, and another for the execution."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies import MessageQueue, TopicConfig
from spark_tools.replay.entry import Runner, replay
from spark_tools.replay.job import RunOptions
from spark_tools.replay.plan import Transform
from spark_tools.replay.request import ReplayRequest
from spark_tools.session import SessionOptions
from tests.spark_tools.spark.fault_lab import wait_for_route
from tests.spark_tools.spark.replay_driver import QUICK_JVM
from tests.support.servers import Server

pytestmark = pytest.mark.spark

SESSION = SessionOptions(master="local[2]", settings=QUICK_JVM)


def test_a_second_redrive_redrives_nothing(server: Server, fresh, tmp_path) -> None:
    """Runs in sessions of its own, as the command does."""
    group, target = fresh("RedriveGroup"), fresh("RedriveTarget")
    dlq = f"%DLQ%{group}"
    with AdminClient(server.namesrv_addr) as admin:
        for topic in (dlq, target):
            admin.create_topic(
                server.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1, perm=6)
            )
            wait_for_route(admin, topic)
        for number in range(30):
            message = Message(dlq, b"%d" % number, properties={"RETRY_TOPIC": "origin", "DELAY": "0"})
            admin.send_message(server.broker_addr, MessageQueue(dlq, "broker-a", 0), message)
        request = ReplayRequest(
            name_server=server.namesrv_addr, dlq_group=group, to=f"topic:{target}",
            transform=Transform(set_properties={"status": "again"}), wave_messages=20,
        )  # fmt: skip
        runner = Runner(ledger_root=str(tmp_path), session=SESSION, run=RunOptions())
        planned = replay(request, runner, job="first")
        assert planned.result is None
        assert planned.plan.shown["selected"] == 30
        done = replay(None, runner, execute=True, job="first").result
        assert done is not None
        assert (done.stored, done.audit.found, done.audit.missing, done.audit.doubled) == (30, 30, 0, 0)
        again = replay(request, runner, execute=True, job="second").result
        assert again is not None
        assert (again.stored, again.excluded) == (0, 30)
        pulled = admin.pull_message(server.broker_addr, MessageQueue(target, "broker-a", 0), 0).messages
        assert {message.properties["status"] for message in pulled} == {"again"}
        assert all("DELAY" not in message.properties for message in pulled)


def test_the_command_says_nothing_but_its_own_lines(server: Server, fresh, tmp_path) -> None:
    """No log4j line, no warning of a Python worker, no stack: what Spark says is in its log."""
    group = fresh("QuietGroup")
    dlq = f"%DLQ%{group}"
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(
            server.broker_addr, TopicConfig(topic_name=dlq, read_queue_nums=1, write_queue_nums=1, perm=6)
        )
        wait_for_route(admin, dlq)
        message = Message(dlq, b"dead", properties={"RETRY_TOPIC": "origin"})
        admin.send_message(server.broker_addr, MessageQueue(dlq, "broker-a", 0), message)
    command = [
        sys.executable, "-m", "rmqadmin", "-o", "json", "spark-replay", "-n", server.namesrv_addr, "--dlq", group,
        "--where", "cast(body as string) = 'dead'", "--ledger", str(tmp_path / "ledgers"), "--job", "quiet",
        "--master", "local[2]", "--spark-log", str(tmp_path / "spark.log"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["selected"] == 1
    assert [line for line in done.stderr.splitlines() if not line.startswith("rmqadmin: ")] == []
    assert (tmp_path / "spark.log").stat().st_size > 0
