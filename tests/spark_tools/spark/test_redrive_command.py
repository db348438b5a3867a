"""A redrive from plan to audit, in a running session and as a command."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pexpect
import pytest

from tests.support.servers import topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import UsageError
from rmqproto.message.record import StoredMessage
from rmqreplay.plans.plan import Transform
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.entry import Runner
from rmqreplay.run.job import FailuresExceeded, RunOptions
from spark_tools.replay.entry import replay
from tests.rmqreplay.replay_lab import wait_for_route
from tests.spark_tools.spark.replay_driver import QUICK_JVM
from tests.support.servers import Server, until

pytestmark = pytest.mark.spark

DEAD_COUNT = 30


@dataclass
class DeadLetters:
    """Dead letters of a group of its own, and an empty topic to send them to."""

    admin: AdminClient
    broker_addr: str
    group: str
    target: str

    @property
    def sent(self) -> list[StoredMessage]:
        return self.admin.pull_message(self.broker_addr, MessageQueue(self.target, "broker-a", 0), 0).messages


@pytest.fixture
def dead(server: Server, fresh) -> Iterator[DeadLetters]:
    with AdminClient(server.namesrv_addr) as admin:
        made = DeadLetters(admin, server.broker_addr, fresh("RedriveGroup"), fresh("RedriveTarget"))
        dlq = f"%DLQ%{made.group}"
        for topic in (dlq, made.target):
            admin.create_topic(server.broker_addr, topic_config(topic))
            wait_for_route(admin, topic)
        for number in range(DEAD_COUNT):
            message = Message(dlq, b"%d" % number, properties={"RETRY_TOPIC": "origin", "DELAY": "0"})
            admin.send_message(server.broker_addr, MessageQueue(dlq, "broker-a", 0), message)
        yield made


def test_a_second_redrive_redrives_nothing(spark, dead: DeadLetters, server: Server, tmp_path) -> None:
    """The first redrive is planned, which sends nothing, and then executed as planned."""
    request = ReplayRequest(
        name_server=server.namesrv_addr, dlq_group=dead.group, to=f"topic:{dead.target}",
        transform=Transform(set_properties={"status": "again"}), wave_messages=20,
    )  # fmt: skip
    runner = Runner(ledger_root=str(tmp_path))
    planned = replay(request, runner, job="first", spark=spark)
    assert planned.result is None
    assert planned.plan.shown["selected"] == DEAD_COUNT
    assert dead.sent == []
    done = replay(None, runner, execute=True, job="first", spark=spark).result
    assert (done.stored, done.audit.found, done.audit.missing, done.audit.doubled) == (DEAD_COUNT, DEAD_COUNT, 0, 0)
    again = replay(request, runner, execute=True, job="second", spark=spark).result
    assert (again.stored, again.excluded) == (0, DEAD_COUNT)
    once_more = replay(replace(request, skip_redriven=False), runner, execute=True, job="third", spark=spark).result
    assert once_more.stored == DEAD_COUNT, "when told to"
    assert {message.properties["status"] for message in dead.sent} == {"again"}
    assert all("DELAY" not in message.properties for message in dead.sent)


def test_a_canary_goes_first_and_the_rest_only_when_it_was_taken(spark, dead: DeadLetters, server, tmp_path) -> None:
    """A group reads the target but consumes nothing. Resuming the job overrules the canary."""
    group = f"{dead.group}Reader"
    dead.admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    dead.admin.update_consumer_offset(server.broker_addr, group, dead.target, 0, 0)
    request = ReplayRequest(
        name_server=server.namesrv_addr, dlq_group=dead.group, to=f"topic:{dead.target}", canary=4, wave_messages=20,
    )  # fmt: skip
    runner = Runner(ledger_root=str(tmp_path), run=RunOptions(canary_wait_s=0.0))
    with pytest.raises(FailuresExceeded, match=f"{group}: 4 behind"):
        replay(request, runner, execute=True, job="canary", spark=spark)
    assert sorted(message.body for message in dead.sent) == [b"0", b"1", b"2", b"3"]
    done = replay(None, runner, resume=True, job="canary", spark=spark).result
    assert (done.delivered_total, done.audit.found, done.audit.is_good) == (DEAD_COUNT, DEAD_COUNT, True)


def test_a_share_of_failures_stops_and_the_rest_can_be_parked(spark, dead: DeadLetters, server, tmp_path) -> None:
    """30 letters were never redriven, and 3 more were redriven three times each."""
    dlq = MessageQueue(f"%DLQ%{dead.group}", "broker-a", 0)
    for number in range(3):
        message = Message(dlq.topic, b"spent %d" % number, properties={"REPLAY_ROUND": "3"})
        dead.admin.send_message(server.broker_addr, dlq, message)
    parked = f"{dead.target}Parked"
    dead.admin.create_topic(server.broker_addr, topic_config(parked))
    wait_for_route(dead.admin, parked)
    request = ReplayRequest(
        name_server=server.namesrv_addr, dlq_group=dead.group, to=f"topic:{dead.target}",
        transform=Transform(redrives_max=3),
    )  # fmt: skip
    strict = Runner(ledger_root=str(tmp_path / "a"), run=RunOptions(failures_share_max=0.08))
    with pytest.raises(FailuresExceeded, match="3 messages rejected, more than the 2 allowed"):
        replay(request, strict, execute=True, spark=spark)
    parking = replace(request, transform=Transform(redrives_max=3, park_topic=parked))
    done = replay(parking, Runner(ledger_root=str(tmp_path / "b")), execute=True, spark=spark).result
    assert (done.rejected, done.delivered_total, done.audit.is_good) == (0, DEAD_COUNT + 3, True)
    found = dead.admin.pull_message(server.broker_addr, MessageQueue(parked, "broker-a", 0), 0).messages
    assert sorted(message.body for message in found) == [b"spent 0", b"spent 1", b"spent 2"]


def test_delayed_messages_are_sent_without_an_audit_that_would_miss_them(spark, dead, server, tmp_path) -> None:
    request = ReplayRequest(
        name_server=server.namesrv_addr, dlq_group=dead.group, to=f"topic:{dead.target}", at_least_once=True,
        transform=Transform(delay_level=18),
    )  # fmt: skip
    with pytest.raises(UsageError, match="an audit would miss them"):
        replay(request, Runner(ledger_root=str(tmp_path), run=RunOptions(audit=True)), execute=True, spark=spark)
    waiting = ("SCHEDULE_TOPIC_XXXX", 17)
    before = dead.admin.max_offset(server.broker_addr, *waiting)
    done = replay(request, Runner(ledger_root=str(tmp_path)), execute=True, job="delayed", spark=spark).result
    assert (done.stored, done.audit) == (DEAD_COUNT, None)
    until(lambda: dead.admin.max_offset(server.broker_addr, *waiting) == before + DEAD_COUNT)
    assert dead.sent == []


def test_the_command_says_nothing_but_its_own_lines(dead: DeadLetters, server: Server, tmp_path) -> None:
    """No log4j lines, worker warnings or stack traces: Spark's output goes to its log."""
    log = tmp_path / "spark.log"
    command = [
        sys.executable, "-m", "rmqadmin", "-o", "json", "spark-replay", "-n", server.namesrv_addr, "--dlq", dead.group,
        "--to", f"topic:{dead.target}", "--where", "cast(body as string) < '2'", "--ledger", str(tmp_path / "ledgers"),
        "--job", "quiet", "--execute", "--yes", "--audit", "--cores", "1", "--spark-log", str(log),
        *(word for name, value in QUICK_JVM.items() for word in ("--spark-conf", f"{name}={value}")),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    bodies = sorted(message.body for message in dead.sent)
    assert bodies == sorted(b"%d" % number for number in (0, 1, *range(10, 20)))
    summary = json.loads(done.stdout)["summary"]
    assert {name: summary[name] for name in ("selected", "delivered", "audited", "missing", "doubled")} == {
        "selected": 12, "delivered": 12, "audited": 12, "missing": 0, "doubled": 0,
    }  # fmt: skip
    lines = done.stderr.splitlines()
    assert [line for line in lines if not line.startswith("rmqadmin: ")] == []
    assert any("1 of 1 waves done, 12 of 12 messages sent" in line for line in lines)
    assert log.read_text().startswith("Java: ")


def test_at_a_terminal_it_asks_before_sending_and_after_the_canary_and_keys_pause_it(
    dead: DeadLetters, server: Server, tmp_path
) -> None:
    command = [
        "-m", "rmqadmin", "spark-replay", "-n", server.namesrv_addr, "--dlq", dead.group,
        "--to", f"topic:{dead.target}", "--ledger", str(tmp_path / "ledgers"), "--job", "seen", "--execute",
        "--rate", "10", "--canary", "5", "--cores", "1", "--spark-log", str(tmp_path / "spark.log"),
        *(word for name, value in QUICK_JVM.items() for word in ("--spark-conf", f"{name}={value}")),
    ]  # fmt: skip
    child = pexpect.spawn(sys.executable, command, encoding="utf-8", timeout=300, dimensions=(30, 160), use_poll=True)
    child.expect(f"This sends 30 messages .*Type {dead.group} to go on: ")
    assert dead.sent == []
    child.sendline(dead.group)
    child.expect("wave 1 of 2")
    child.expect("the canary was sent: no group reads the target")
    child.expect(f"This sends the rest.*Type {dead.group} to go on: ")
    assert len(dead.sent) == 5
    child.sendline(dead.group)
    child.expect("wave 2 of 2")
    child.send("p")
    child.expect("paused")
    child.send("p")
    child.expect("at most 10/s")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert len(dead.sent) == DEAD_COUNT
