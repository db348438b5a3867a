"""Executors, each a JVM with Python workers, die or freeze in the middle of a wave or a write. A frozen one becomes a
zombie: Spark gives its task to another, while its Python worker still sends the rows that it already had."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyspark

from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from rmqreplay.run.job import RunOptions, run_replay
from spark_tools.replay.spark_engine import SparkEngine
from spark_tools.session import SessionOptions, spark_session
from tests.rmqreplay.replay_lab import Lab, Send, kill_once, wait_for_route
from tests.spark_tools.spark.replay_driver import FAULT_RUN, QUICK_JVM
from tests.spark_tools.spark.spark_processes import executors, sending_executor
from tests.spark_tools.spark.streamed import Sender, batches_logged, each_once, rows, settle, start_stream
from tests.spark_tools.spark.test_write_faults import DELIVERIES, check, make_topic, stored
from tests.support.servers import Server, until

pytestmark = [pytest.mark.spark, pytest.mark.spark_faults]

COUNT = 2000
SENDS = COUNT // FAULT_RUN["batch_messages"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two executors on this machine. local-cluster writes below SPARK_HOME, so it gets one made of links.

    A process has room for one session. This module is the first of its folder and ends its session before the others
    start theirs.
    """
    home = tmp_path_factory.mktemp("spark-home")
    for name in ("bin", "jars", "python", "sbin"):
        source = Path(pyspark.__file__).parent / name
        if source.exists():
            (home / name).symlink_to(source)
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = str(home)
    settings = QUICK_JVM | {
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executor.memory": "512m",
        "spark.executor.heartbeatInterval": "1s",
        "spark.network.timeout": "10s",
        "spark.rpc.askTimeout": "300s",  # would be as short; on a busy machine Spark did not start then
        "spark.rpc.lookupTimeout": "300s",
        "spark.network.timeoutInterval": "2s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]),
    }
    try:
        with spark_session(SessionOptions(master="local-cluster[2,1,512]", settings=settings)) as spark:
            yield spark
    finally:
        if before is None:
            del os.environ["SPARK_HOME"]
        else:
            os.environ["SPARK_HOME"] = before


@pytest.fixture(scope="module")
def engine(session: Any) -> SparkEngine:
    return SparkEngine(session, 2)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP])
def test_one_executor_dies_or_freezes(lab: Lab, engine: SparkEngine, sig: signal.Signals) -> None:
    for protected in (False, True):
        plan = lab.job(COUNT)
        with one_executor_gets(sig, lab, at_send=SENDS // 3, delay_s=0.02):
            run_replay(plan, lab.ledger(plan), engine, RunOptions(protected=protected, audit=False, **FAULT_RUN))
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled


def test_a_stream_whose_executor_dies(
    session: Any, server: Server, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    topic = fresh("StreamTopic")
    source = {"nameServer": server.namesrv_addr, "subscribe": topic, "startingOffsets": "earliest"}
    with AdminClient(server.namesrv_addr) as admin:
        config = TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2, perm=6)
        admin.create_topic(server.broker_addr, config)
        wait_for_route(admin, topic)
        sender = Sender(admin, topic)
        sender.send(20, server.broker_addr)
        query = start_stream(session, source | {"maxOffsetsPerTrigger": "20"}, tmp_path)
        try:
            settle(query)  # the first batch is slow on a busy machine
            planned = batches_logged(tmp_path)
            sender.send(180, server.broker_addr)
            until(lambda: batches_logged(tmp_path) > planned)
            for pid in executors(os.getpid())[:1]:
                os.kill(pid, signal.SIGKILL)
            settle(query)
            assert query.exception() is None
        finally:
            query.stop()
    assert rows(session, tmp_path) == each_once(200)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP])
def test_one_executor_dies_or_freezes_while_a_frame_is_written(lab: Lab, session: Any, sig: signal.Signals) -> None:
    for delivery in DELIVERIES:
        topic = make_topic(lab, f"{sig.name}-{delivery}")
        frame = session.range(COUNT, numPartitions=2).selectExpr("cast(id as string) as body")
        writing = frame.write.format("rocketmq").mode("append").options(
            nameServer=lab.name_server, topic=topic, delivery=delivery, batchSize="1"
        )  # fmt: skip
        with one_executor_gets(sig, lab, at_send=COUNT // 3, delay_s=0.003):
            writing.save()
        check(stored(lab, topic), {b"%d" % number for number in range(COUNT)}, delivery)


@contextlib.contextmanager
def one_executor_gets(sig: signal.Signals, lab: Lab, *, at_send: int, delay_s: float) -> Iterator[None]:
    """The executor that makes this send gets the signal, and a frozen one ends with the context."""
    lab.proxy.calm()
    lab.proxy.delay_s = delay_s
    victims: list[int] = []

    def sender(send: Send) -> list[int]:
        victims[:] = sending_executor(os.getpid(), send)
        return victims

    lab.proxy.on_send = kill_once(sender, at_send=at_send, sig=sig)
    try:
        yield
    finally:
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        lab.proxy.calm()
    assert len(victims) == 1
