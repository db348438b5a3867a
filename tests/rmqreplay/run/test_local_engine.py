"""Selecting, planning and sending in one process, against a running broker."""

import json
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.message.sys_flag import COMPRESSED
from rmqreplay.ledger.ledger import Begin, FenceLine, Ledger
from rmqreplay.plans.plan import Selection, Transform, load_plan
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.consumers import CanaryReport
from rmqreplay.run.entry import ReplayOutcome, Runner, redrive
from rmqreplay.run.job import Hooks, PlanConflict, ReplayProgress
from rmqreplay.sending.delivery import Batch, Outgoing
from rmqreplay.sending.sender import BatchSender, round_robin
from rmqreplay.sending.target import read_fences
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Server, topic_config

COUNT = 12


class DeadLetters:
    """Twelve dead letters of a group of its own, in two queues, and an empty target topic with one queue."""

    def __init__(self, server: Server, group: str, target: str):
        self.server, self.group, self.target = server, group, target
        self.dlq = f"%DLQ%{group}"
        with AdminClient(server.namesrv_addr) as admin:
            for topic, queues in ((self.dlq, 2), (target, 1)):
                admin.create_topic(server.broker_addr, topic_config(topic, queues))
                wait_for_route(admin, topic)
            for number in range(COUNT):
                body = json.dumps({"number": number, "type": "refund" if number % 3 == 0 else "charge"}).encode()
                properties = {"RETRY_TOPIC": target, "parity": "even" if number % 2 == 0 else "odd"}
                message = Message(self.dlq, body, tags=f"T{number % 4}", keys=f"k{number} all", properties=properties)
                admin.send_message(server.broker_addr, MessageQueue(self.dlq, "broker-a", number % 2), message)

    @property
    def request(self) -> ReplayRequest:
        return ReplayRequest(name_server=self.server.namesrv_addr, dlq_group=self.group, to=f"topic:{self.target}")

    def make_anew(self) -> None:
        """Deletes the topic of the dead letters, and fills another of its name at all the same offsets."""
        with AdminClient(self.server.namesrv_addr) as admin:
            admin.delete_topic_in_broker(self.server.broker_addr, self.dlq)
        DeadLetters(self.server, self.group, self.target)

    def sent(self) -> list[int]:
        with AdminClient(self.server.namesrv_addr) as admin:
            queue = MessageQueue(self.target, "broker-a", 0)
            messages = admin.pull_message(self.server.broker_addr, queue, 0).messages
        return sorted(json.loads(message.body)["number"] for message in messages)


@pytest.fixture
def dead(server: Server, fresh) -> DeadLetters:
    return DeadLetters(server, fresh("LocalGroup"), fresh("LocalTarget"))


@pytest.fixture
def run(tmp_path: Path):
    def run(request: ReplayRequest | None = None, **how) -> ReplayOutcome:
        return redrive(request, Runner(ledger_root=str(tmp_path)), **how)

    return run


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        (Selection(), range(COUNT)),
        (Selection(tags="T1 || T3"), [1, 3, 5, 7, 9, 11]),
        (Selection(keys=["k7"]), [7]),
        (Selection(keys=["all", "k8"]), [8]),
        (Selection(properties={"parity": "even"}), [0, 2, 4, 6, 8, 10]),
        (Selection(json_values={"$.type": "refund"}), [0, 3, 6, 9]),
        (Selection(json_values={"$.number": "5"}), [5]),
        (Selection(body_pattern='"number": ?1[01]?\\b'), [1, 10, 11]),
        (Selection(json_values={"$.type": "refund"}, properties={"parity": "odd"}), [3, 9]),
    ],
)
def test_what_is_selected_is_sent_once(dead: DeadLetters, run, selection: Selection, numbers) -> None:
    result = run(replace(dead.request, selection=selection), execute=True).result
    assert dead.sent() == list(numbers)
    assert (result.stored, result.audit.found, result.audit.is_good) == (len(numbers), len(numbers), True)


@pytest.mark.parametrize("selection", [Selection(keys=["k"]), Selection(reconsume_times_min=1)])
def test_a_selection_that_fits_nothing_is_no_job(dead: DeadLetters, run, tmp_path: Path, selection) -> None:
    with pytest.raises(NotFoundError, match=f"none of {COUNT} messages fits"):
        run(replace(dead.request, selection=selection), execute=True, job="nothing")
    assert not (tmp_path / "nothing").exists()


def test_a_group_without_dead_letters_is_named(dead: DeadLetters, run) -> None:
    with pytest.raises(NotFoundError, match="group NoSuchGroup has no dead letters"):
        run(replace(dead.request, dlq_group="NoSuchGroup"))


def test_a_dry_run_sends_nothing_and_its_job_does_what_was_shown(dead: DeadLetters, run) -> None:
    dry = run(dead.request, job="two")
    assert dry.result is None
    assert dead.sent() == []
    shown = dry.plan.shown
    assert (shown["selected"], shown["topics"], shown["tags"]) == (
        COUNT, {dead.target: COUNT}, {"T0": 3, "T1": 3, "T2": 3, "T3": 3},
    )  # fmt: skip
    assert load_plan(dry.directory) == dry.plan
    assert run(None, execute=True, job="two").result.stored == COUNT
    again = run(dead.request, execute=True, job="three").result
    assert (again.stored, again.excluded) == (0, COUNT), "what another job delivered is left out"


def test_ids_are_unique_keys_or_offset_ids(dead: DeadLetters, run) -> None:
    with AdminClient(dead.server.namesrv_addr) as admin:
        queue = MessageQueue(dead.dlq, "broker-a", 0)
        first, second = admin.pull_message(dead.server.broker_addr, queue, 0).messages[:2]
    ids = [first.properties["UNIQ_KEY"], second.message_id]
    run(replace(dead.request, selection=Selection(ids=ids)), execute=True)
    assert dead.sent() == [0, 2]


def test_limit_and_duplicates(dead: DeadLetters, run) -> None:
    assert run(replace(dead.request, limit=5), job="limit").plan.shown["selected"] == 5
    shown = run(replace(dead.request, dedup="key"), job="keys").plan.shown
    assert (shown["selected"], shown["duplicates"]) == (COUNT, 0)
    with AdminClient(dead.server.namesrv_addr) as admin:
        same = Message(dead.dlq, b'{"number": 0}', keys="k0 all", properties={"RETRY_TOPIC": dead.target})
        admin.send_message(dead.server.broker_addr, MessageQueue(dead.dlq, "broker-a", 1), same)
    for keep, size in (("first", len('{"number": 0, "type": "refund"}')), ("last", len('{"number": 0}'))):
        request = replace(
            dead.request, dedup="key", dedup_keep=keep, selection=Selection(keys=["k0"]), skip_redriven=False
        )
        runner = Runner(ledger_root=str(Path(run(request, job=keep).directory).parent), sample=5)
        plan = redrive(replace(request, job=f"{keep}-shown"), runner).plan
        assert plan.shown["duplicates"] == 1
        assert [each["body_size_bytes"] for each in plan.shown["samples"]] == [size]


def test_compressed_bodies_are_looked_into_and_sent_as_they_are(dead: DeadLetters, run) -> None:
    body = json.dumps({"number": 99, "type": "packed"}).encode()
    packed = zlib.compress(body)
    queue = MessageQueue(dead.dlq, "broker-a", 0)
    sender = BatchSender(
        {"broker-a": dead.server.broker_addr}, round_robin([queue]), producer_group="p", send_timeout_s=60
    )
    text = f"RETRY_TOPIC\x01{dead.target}\x02"
    sender.put(
        Batch([Outgoing("", queue, 0, dead.dlq, packed, text, sys_flag=COMPRESSED)]), float("inf"), lambda: float("inf")
    )
    assert [each.answer.value for each in sender.outcomes()] == ["stored"]
    sender.close()
    run(replace(dead.request, selection=Selection(json_values={"$.type": "packed"})), execute=True)
    with AdminClient(dead.server.namesrv_addr) as admin:
        (message,) = admin.pull_message(dead.server.broker_addr, MessageQueue(dead.target, "broker-a", 0), 0).messages
    assert (message.plain_body(), message.body) == (body, packed)


def test_a_target_that_is_not_there_is_said_by_the_dry_run(dead: DeadLetters, run, fresh) -> None:
    for to in ("topic:NoSuchTopic", "group"):
        with pytest.raises(NotFoundError, match="does not exist"):
            run(replace(dead.request, to=to))
    with AdminClient(dead.server.namesrv_addr) as admin:
        stray = Message(dead.dlq, b"x", properties={"RETRY_TOPIC": fresh("Gone")})
        admin.send_message(dead.server.broker_addr, MessageQueue(dead.dlq, "broker-a", 0), stray)
    with pytest.raises(NotFoundError, match=r"Gone.* does not exist"):
        run(replace(dead.request, to="same"))
    assert dead.sent() == []


def test_a_source_that_was_made_anew_amid_a_job_is_told(dead: DeadLetters, tmp_path: Path) -> None:
    def make_anew(progress: ReplayProgress) -> None:
        if progress.wave == 1 and progress.granted:
            dead.make_anew()

    runner = Runner(ledger_root=str(tmp_path), hooks=Hooks(on_progress=make_anew))
    with pytest.raises(PlanConflict, match="has other messages than those that job two was planned with"):
        redrive(replace(dead.request, wave_messages=4), runner, execute=True, job="two")
    assert len(dead.sent()) == 4
    with AdminClient(dead.server.namesrv_addr) as admin:
        admin.delete_topic_in_broker(dead.server.broker_addr, dead.dlq)
        with pytest.raises(PlanConflict, match="has other messages"):
            redrive(None, runner, resume=True, job="two")
        admin.delete_topic_in_namesrv(dead.server.namesrv_addr, dead.dlq)


def test_a_source_that_was_made_anew_while_its_canary_was_watched_is_told(dead: DeadLetters, tmp_path: Path) -> None:
    """Whoever is asked whether to go on may take long."""

    def go_on(report: CanaryReport) -> bool:
        dead.make_anew()
        return True

    runner = Runner(ledger_root=str(tmp_path), hooks=Hooks(on_canary=go_on))
    with pytest.raises(PlanConflict, match="has other messages than those that job two was planned with"):
        redrive(replace(dead.request, canary=2), runner, execute=True, job="two")
    assert len(dead.sent()) == 2


def test_a_topic_is_not_replayed_into_itself_under_another_address(dead: DeadLetters, run) -> None:
    with AdminClient(dead.server.namesrv_addr) as admin:
        for number in range(4):
            message = Message(dead.target, json.dumps({"number": number}).encode())
            admin.send_message(dead.server.broker_addr, MessageQueue(dead.target, "broker-a", 0), message)
    other_name = dead.server.namesrv_addr.replace("127.0.0.1", "localhost")
    for to in ("same", f"topic:{dead.target}"):
        request = ReplayRequest(
            name_server=dead.server.namesrv_addr, topics=[dead.target], to=to, target_name_server=other_name
        )
        with pytest.raises(UsageError, match="would be replayed into itself: the target has"):
            run(request, execute=True)
    assert dead.sent() == [0, 1, 2, 3]


def test_a_topic_that_the_other_cluster_lacks_is_told_before_a_message_is_read(
    dead: DeadLetters, start_standalone, tmp_path: Path
) -> None:
    with AdminClient(dead.server.namesrv_addr) as admin:
        admin.send_message(
            dead.server.broker_addr, MessageQueue(dead.target, "broker-a", 0), Message(dead.target, b"x")
        )
    request = ReplayRequest(
        name_server=dead.server.namesrv_addr, topics=[dead.target], to="same",
        target_name_server=start_standalone().namesrv_addr,
    )  # fmt: skip
    runner = Runner(ledger_root=str(tmp_path), hooks=Hooks(on_read=lambda _: pytest.fail("messages are read")))
    with pytest.raises(NotFoundError, match=f"the target topic {dead.target} does not exist"):
        redrive(request, runner)


def test_what_needs_spark_is_refused_by_name(dead: DeadLetters, run) -> None:
    for changes, name in (
        ({"selection": Selection(where="queueId = 1")}, "--where"),
        ({"transform": Transform(body_expression="body")}, "--body-expr"),
        ({"to": "file:/nowhere"}, "--to file"),
    ):
        with pytest.raises(UsageError, match=f"{name} needs Spark"):
            run(replace(dead.request, **changes))


@pytest.fixture
def begin(dead: DeadLetters, run):
    """Leaves a job as if its driver had died right after the first fence."""

    def begin(request: ReplayRequest, job: str = "begun") -> None:
        dry = run(request, job=job)
        with LiveCluster(dead.server.namesrv_addr) as cluster, Ledger(dry.directory) as ledger:
            ledger.append(Begin(dry.plan.identity, 1))
            ledger.append(FenceLine(0, read_fences(cluster, [dead.target])))

    return begin


@pytest.fixture
def begun(dead: DeadLetters, begin) -> ReplayRequest:
    request = replace(dead.request, selection=Selection(tags="T1"))
    begin(request)
    return request


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"selection": Selection(tags="T2")}, "selection"),
        ({"limit": 3}, "selection"),
        ({"from_group": "g"}, "selection"),
        ({"queues": ["broker-a:0"]}, "selection"),
        ({"skip_redriven": False}, "selection"),
        ({"start_ms": 1, "start_text": "-60w"}, "selection"),
        ({"to": "same"}, "target"),
        ({"transform": Transform(set_tag="x")}, "change"),
        ({"keep_order": True}, "order"),
        ({"dlq_group": "other"}, "topic or group"),
        ({"name_server": "127.0.0.1:1"}, "source"),
    ],
)
def test_a_selection_to_resume_must_be_the_plans(run, begun: ReplayRequest, changes, word: str) -> None:
    with pytest.raises(UsageError, match=f"planned with another {word}"):
        run(replace(begun, **changes), resume=True, job="begun")
    with pytest.raises(UsageError, match=r"0 open jobs .* select this; open are: begun"):
        run(replace(begun, **changes), resume=True)


@pytest.mark.slow
def test_a_job_is_found_by_its_selection(dead: DeadLetters, run, begun: ReplayRequest) -> None:
    result = run(begun, resume=True).result
    assert (result.job, result.stored, dead.sent()) == ("begun", 3, [1, 5, 9])


@pytest.mark.slow
def test_what_meant_another_time_or_offset_is_still_the_same_selection(dead: DeadLetters, run, begin) -> None:
    """``--from -1h --resume`` used to be refused, because -1h had become another time. So was every resume with
    ``--from-group`` or ``--offsets``."""
    now_ms = time.time_ns() // 1_000_000
    queue = MessageQueue(dead.dlq, "broker-a", 0)
    requests = {
        "hour": replace(dead.request, start_ms=now_ms - 3_600_000, start_text="-1h", selection=Selection(tags="T1")),
        "group": replace(dead.request, from_group=dead.group, queues=["broker-a:0"], selection=Selection(tags="T0")),
        "offsets": replace(dead.request, offsets=[OffsetRange(MessageQueue(dead.dlq, "broker-a", 1), 1, 2)]),
    }
    with AdminClient(dead.server.namesrv_addr) as admin:
        admin.create_group(dead.server.broker_addr, SubscriptionGroupConfig(group_name=dead.group))
        admin.update_consumer_offset(dead.server.broker_addr, dead.group, dead.dlq, 0, 0)
        for job, request in requests.items():
            begin(request, job)
        admin.update_consumer_offset(dead.server.broker_addr, dead.group, queue.topic, queue.queue_id, 5)
    later = {**requests, "hour": replace(requests["hour"], start_ms=now_ms)}
    with pytest.raises(UsageError, match="0 open jobs"):
        run(replace(later["hour"], start_text="-2h"), resume=True)
    for job, request in later.items():
        assert run(request, resume=True).result.job == job
    assert dead.sent() == [0, 1, 3, 4, 5, 8, 9]


def test_a_redrive_loads_neither_spark_nor_a_store() -> None:
    """It does not load Arrow either: one dead letter should cost little more than its way over the wire."""
    script = "import sys, rmqreplay.run.entry; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"pyspark", "pyarrow", "numpy", "pandas", "trio", "rmqserver.store.message_store"}
    assert not heavy & set(done.stdout.split())
