"""Executors of a standalone cluster, each a JVM with Python workers, die or freeze in the middle of a read, a write or
a wave. A frozen one becomes a zombie: Spark gives its task to another, while its Python worker still sends the rows
that it already had."""

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Fresh, topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqreplay.run.job import RunOptions, run_replay
from rmqreplay.source.archive_manifest import STAGING, load_manifest
from spark_tools.archive.archive_run import ArchiveHooks, ArchiveRequest, archive
from spark_tools.replay.spark_engine import SparkEngine
from spark_tools.session import SessionOptions, spark_session
from tests.rmqreplay.replay_lab import Lab, Send, kill_once, wait_for_route
from tests.spark_tools.spark.replay_driver import FAULT_RUN, QUICK_JVM
from tests.spark_tools.spark.spark_processes import executors, passed_by_a_dying_executor, sending_executor
from tests.spark_tools.spark.standalone_spark import EXECUTOR_MEMORY, HOSTS, StandaloneSpark
from tests.spark_tools.spark.streamed import Sender, batches_logged, each_once, rows, settle, start_stream
from tests.spark_tools.spark.test_write_faults import DELIVERIES, check, make_topic, stored
from tests.support.servers import Server, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNT = 2000
SENDS = COUNT // FAULT_RUN["batch_messages"]
SIGNALS = [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.spark_faults)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Ends before the other tests of this folder start theirs (``conftest.py``)."""
    settings = QUICK_JVM | {
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.executor.heartbeatInterval": "1s",
        "spark.network.timeout": "10s",
        "spark.rpc.askTimeout": "300s",  # would be as short; on a busy machine Spark did not start then
        "spark.rpc.lookupTimeout": "300s",
        "spark.network.timeoutInterval": "2s",
        "spark.scheduler.minRegisteredResourcesRatio": "1",  # both workers take part from the start
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]),
    }
    with (
        StandaloneSpark(tmp_path_factory.mktemp("spark")) as cluster,
        spark_session(SessionOptions(master=cluster.url, cores=len(HOSTS), settings=settings)) as spark,
    ):
        yield spark


@pytest.fixture(scope="module")
def engine(session: Any) -> SparkEngine:
    return SparkEngine(session, 2)


def test_an_executor_dies_while_a_topic_is_read(lab: Lab, session: Any, tmp_path: Path) -> None:
    """Its rows are those of one batch of several when it dies."""
    from pyspark.sql import functions as f

    (topic,) = {each.queue.topic for each in lab.job(20 * COUNT).ranges}
    died = tmp_path / "died"
    frame = session.read.format("rocketmq").options(nameServer=lab.name_server, subscribe=topic).load()
    passed = f.udf(partial(passed_by_a_dying_executor, str(died), COUNT), "long", useArrow=False)
    read = frame.select("queueId", passed("queueOffset").alias("at")).collect()
    assert died.exists()
    assert Counter((row.queueId, row.at) for row in read) == Counter(product(range(2), range(10 * COUNT)))


@pytest.mark.parametrize("sig", SIGNALS)
def test_one_executor_dies_or_freezes(lab: Lab, engine: SparkEngine, sig: signal.Signals) -> None:
    for protected in (False, True):
        plan = lab.job(COUNT)
        with one_executor_gets(sig, lab, at_send=SENDS // 3, delay_s=0.02):
            run_replay(plan, lab.ledger(plan), engine, RunOptions(protected=protected, audit=False, **FAULT_RUN))
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled


@pytest.mark.spark_faults
def test_a_stream_whose_executor_dies(session: Any, server: Server, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("StreamTopic")
    source = {"nameServer": server.namesrv_addr, "subscribe": topic, "startingOffsets": "earliest"}
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, 2))
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


@pytest.mark.parametrize("sig", SIGNALS)
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


@pytest.mark.spark_faults
def test_an_executor_dies_while_a_topic_is_archived(session: Any, server: Server, fresh: Fresh, tmp_path: Path) -> None:
    """In the second of four batches: the first is slow on a busy machine."""
    topic, directory = fresh("ArchivedTopic"), tmp_path / "archive"
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, 2))
        wait_for_route(admin, topic)
        Sender(admin, topic).send(200, server.broker_addr)
    request = ArchiveRequest(
        name_server=server.namesrv_addr, directory=str(directory), topics=[topic], batch_messages=50
    )
    one_written = threading.Event()

    def run() -> None:
        try:
            archive(request, ArchiveHooks(on_batch=lambda _: one_written.set()), spark=session)
        finally:
            one_written.set()

    running = threading.Thread(target=run)
    running.start()
    one_written.wait()
    until(lambda: (directory / STAGING).exists() or not running.is_alive())
    os.kill(executors(os.getpid())[0], signal.SIGKILL)
    running.join()
    assert load_manifest(str(directory)).next_number == 4
    found = session.read.parquet(str(directory)).selectExpr("cast(body as string) body").collect()
    assert Counter(row.body for row in found) == each_once(200)


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
