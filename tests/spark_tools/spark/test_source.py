"""The ``rocketmq`` format in a real session: what ``pip install`` gives a user of Spark."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from replay_driver import QUICK_JVM

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies import MessageQueue, TopicConfig
from spark_tools.replay.entry import Runner, replay
from spark_tools.replay.job import RunOptions
from spark_tools.replay.plan import Transform
from spark_tools.replay.request import ReplayRequest
from spark_tools.session import SessionOptions, spark_session
from tests.support.servers import Server

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[2] / "golden" / "store"
SESSION = SessionOptions(master="local[2]", settings=QUICK_JVM)


@pytest.fixture(scope="module")
def spark() -> Iterator:
    with spark_session(SESSION) as session:
        yield session


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("store")
    with tarfile.open(GOLDEN / "clean.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return str(directory / "store")


def test_the_format_is_found_without_being_registered(spark, store) -> None:
    frame = spark.read.format("rocketmq").option("path", store).option("includeInternalTopics", "true").load()
    counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert counts["NormalTopic"] == 15
    assert counts["%DLQ%RetryGroup"] == 2


def test_filters_are_pushed_down_and_still_hold(spark, store) -> None:
    frame = (
        spark.read.format("rocketmq").option("path", store).option("pushFilters", "true")
        .option("subscribe", "NormalTopic,OrderTopic").schema("topic string, queueId int, queueOffset bigint").load()
    )  # fmt: skip
    plain = frame.collect()
    pushed = frame.where("topic = 'NormalTopic' and queueId in (1, 2) and queueOffset >= 1").collect()
    assert sorted(pushed) == sorted(
        row for row in plain if row.topic == "NormalTopic" and row.queueId in (1, 2) and row.queueOffset >= 1
    )
    assert pushed


def test_a_typo_in_an_option_is_an_error_and_not_the_whole_topic(spark, store) -> None:
    with pytest.raises(Exception, match="did you mean endingOffsets"):
        spark.read.format("rocketmq").option("path", store).option("endingOffset", "x").load()


def test_what_is_written_is_read_back(spark, server: Server, fresh) -> None:
    topic = fresh("SparkTopic")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(
            server.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2, perm=6)
        )
        _wait_for_route(admin, topic)
    frame = spark.range(500).selectExpr(
        "cast(id as string) as body", "'tag' as tags", "concat('key-', id) as keys",
        "map('user', cast(id as string)) as properties",
    )  # fmt: skip
    writing = frame.write.format("rocketmq").option("nameServer", server.namesrv_addr).option("topic", topic)
    writing.mode("append").save()
    read = (
        spark.read.format("rocketmq").option("nameServer", server.namesrv_addr).option("subscribe", topic)
        .option("minPartitions", "4").load()
    )  # fmt: skip
    rows = read.selectExpr("cast(body as string) as body", "tags", "keys", "properties['user'] as user").collect()
    assert sorted(int(row.body) for row in rows) == list(range(500))
    assert all((row.tags, row.keys, row.user) == ("tag", f"key-{row.body}", row.body) for row in rows)
    with pytest.raises(Exception, match="cannot be overwritten"):
        writing.mode("overwrite").save()


def test_a_second_redrive_redrives_nothing(server: Server, fresh, tmp_path) -> None:
    """Runs in sessions of its own, as the command does."""
    group, target = fresh("RedriveGroup"), fresh("RedriveTarget")
    dlq = f"%DLQ%{group}"
    with AdminClient(server.namesrv_addr) as admin:
        for topic in (dlq, target):
            admin.create_topic(
                server.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1, perm=6)
            )
            _wait_for_route(admin, topic)
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


def _wait_for_route(admin: AdminClient, topic: str) -> None:
    import threading
    import time

    from rmqproto.errors import RefusedError

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            admin.topic_route(topic)
            return
        except RefusedError:
            threading.Event().wait(0.05)
    raise AssertionError(json.dumps(topic))
