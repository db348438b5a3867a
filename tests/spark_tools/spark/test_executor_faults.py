"""Executors, each a JVM with Python workers, die or freeze in the middle of a wave. A frozen executor becomes a zombie:
Spark gives its task to another, while its Python worker still sends the rows that it already had."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyspark

from rmqreplay.run.job import RunOptions, run_replay
from spark_tools.replay.spark_engine import SparkEngine
from spark_tools.session import SessionOptions, spark_session
from tests.rmqreplay.replay_lab import Lab, Send, kill_once
from tests.spark_tools.spark.replay_driver import FAULT_RUN, QUICK_JVM
from tests.spark_tools.spark.spark_processes import sending_executor

pytestmark = [pytest.mark.spark, pytest.mark.spark_faults]

COUNT = 2000
SENDS = COUNT // FAULT_RUN["batch_messages"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
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
            yield SparkEngine(spark, 2)
    finally:
        if before is None:
            del os.environ["SPARK_HOME"]
        else:
            os.environ["SPARK_HOME"] = before


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP])
def test_one_executor_dies_or_freezes(lab: Lab, engine: SparkEngine, sig: signal.Signals) -> None:
    for protected in (False, True):
        plan = lab.job(COUNT)
        lab.proxy.calm()
        lab.proxy.delay_s = 0.02
        victims: list[int] = []

        def sender(send: Send, victims: list[int] = victims) -> list[int]:
            victims[:] = sending_executor(os.getpid(), send)
            return victims

        lab.proxy.on_send = kill_once(sender, at_send=SENDS // 3, sig=sig)
        try:
            run_replay(plan, lab.ledger(plan), engine, RunOptions(protected=protected, audit=False, **FAULT_RUN))
        finally:
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            lab.proxy.calm()
        assert len(victims) == 1
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled
