"""Streams of numbered messages into Parquet, for tests that break them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue


def start_stream(spark: Any, options: dict[str, str], directory: str | Path, *, is_bounded: bool = False) -> Any:
    """A query that writes the bodies below ``directory``, batch after batch, or until it has what is there."""
    frame = spark.readStream.format("rocketmq").options(**options).load()
    writing = frame.selectExpr("cast(body as string) body", "queueId", "queueOffset").writeStream.format("parquet")
    writing = writing.option("checkpointLocation", f"{directory}/checkpoint")
    writing = writing.trigger(availableNow=True) if is_bounded else writing.trigger(processingTime="0 seconds")
    return writing.start(f"{directory}/rows")


def drain(spark: Any, options: dict[str, str], directory: str | Path) -> list[dict[str, Any]]:
    """Runs a query until it has what is there; its progress reports."""
    query = start_stream(spark, options, directory, is_bounded=True)
    assert query.awaitTermination(300)
    return [json.loads(each.json) for each in query.recentProgress]


def settle(query: Any) -> None:
    """Waits until the query has what is there. One call may return with a batch that was being planned before, and that
    did not see the last message: Spark only waits for any trigger without new data."""
    query.processAllAvailable()
    query.processAllAvailable()


def rows(spark: Any, directory: Path) -> Counter[str]:
    return Counter(row.body for row in spark.read.parquet(f"{directory}/rows").collect())


def each_once(count: int) -> Counter[str]:
    return Counter(str(number) for number in range(count))


def batches_logged(directory: Path) -> int:
    """How many batches a query has planned: the last may be running."""
    return len([path for path in (directory / "checkpoint" / "offsets").glob("[0-9]*") if path.name.isdecimal()])


class StreamDriver:
    """Runs ``start_stream`` in a process that will be killed. The constructor waits for its first batch."""

    def __init__(self, options: dict[str, str], directory: Path):
        program = str(Path(__file__).with_name("stream_driver.py"))
        self.process = subprocess.Popen(
            [sys.executable, program, json.dumps(options), str(directory)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout.readline() == b"begun\n"

    def kill(self) -> None:
        """Kills the driver with its JVM and its workers, as a machine that is lost."""
        with contextlib.suppress(ProcessLookupError):  # killed before
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)


class Sender:
    """Sends numbered messages to a topic."""

    def __init__(self, admin: AdminClient, topic: str):
        self.admin = admin
        self.topic = topic
        self.count = 0

    def send(self, count: int, address: str, broker_name: str = "broker-a", queues: int = 2) -> None:
        for number in range(self.count, self.count + count):
            queue = MessageQueue(self.topic, broker_name, number % queues)
            self.admin.send_message(address, queue, Message(self.topic, b"%d" % number))
        self.count += count
