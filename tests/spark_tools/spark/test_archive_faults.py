"""An archive has each message once, whatever dies on the way."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqreplay.source.archive_manifest import load_manifest
from spark_tools.archive.archive_run import ArchiveHooks, ArchiveRequest, archive
from tests.rmqreplay.replay_lab import wait_for_route
from tests.spark_tools.spark.replay_driver import QUICK_JVM
from tests.spark_tools.spark.spark_processes import python_workers
from tests.spark_tools.spark.streamed import Sender, each_once
from tests.support import servers
from tests.support.processes import free_ports
from tests.support.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.spark_faults]

COUNT = 400


class OneBroker:
    """A broker with a topic of COUNT messages, which keeps its ports and its store over restarts."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._ports = free_ports()
        self.server: Server
        self.start()
        with AdminClient(self.server.namesrv_addr) as admin:
            admin.create_topic(self.server.broker_addr, topic_config("Kept", 2))
            wait_for_route(admin, "Kept")
            Sender(admin, "Kept").send(COUNT, self.server.broker_addr)

    def start(self) -> None:
        ports = zip(("--namesrv-port", "--port"), map(str, self._ports), strict=True)
        self.server = servers.standalone(self._directory / "broker", *(word for pair in ports for word in pair))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    made = OneBroker(tmp_path)
    yield made
    made.server.stop()


def has_all(directory: Path) -> bool:
    return len(load_manifest(str(directory)).batches) == COUNT // 100


def bodies(spark: Any, directory: Path) -> Counter[str]:
    manifest = load_manifest(str(directory))
    assert sum(each.messages for batch in manifest.batches for each in batch.ranges) == COUNT
    found = spark.read.parquet(str(directory)).selectExpr("cast(body as string) body")
    return Counter(row.body for row in found.collect())


def test_the_command_is_killed_and_the_broker_and_workers_under_the_next_run(
    spark: Any, broker: OneBroker, tmp_path: Path
) -> None:
    """The next run is the same call in the session of all tests."""
    directory = tmp_path / "archive"
    command = [
        sys.executable, "-m", "rmqadmin", "spark-archive", "-n", broker.server.namesrv_addr, "--topic", "Kept",
        "--archive", str(directory), "--batch", "100", "--follow",
        *(word for name, value in QUICK_JVM.items() for word in ("--spark-conf", f"{name}={value}")),
    ]  # fmt: skip
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert any("batch 0: 100 messages archived" in line for line in process.stderr), "it has four batches to write"
        os.killpg(process.pid, signal.SIGKILL)
    assert not has_all(directory)

    request = ArchiveRequest(
        name_server=broker.server.namesrv_addr, directory=str(directory), topics=["Kept"], batch_messages=100
    )
    written, may_go_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        written.set()
        may_go_on.wait()

    failed: list[BaseException] = []

    def run() -> None:
        try:
            archive(request, ArchiveHooks(on_batch=hold), spark=spark)
        except BaseException as error:
            failed.append(error)
            written.set()

    thread = threading.Thread(target=run)
    thread.start()
    written.wait()
    broker.server.stop(signal.SIGKILL)
    may_go_on.set()
    for pid in python_workers(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    broker.start()
    thread.join()
    assert failed == []
    assert bodies(spark, directory) == each_once(COUNT)
