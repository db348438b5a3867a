"""Name servers know nothing of a topic while its broker restarts. Whatever begins then waits: no row is rejected for
it."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import BrokerData, QueueData
from rmqproto.errors import ConnectError, NotFoundError
from rmqreplay.source.live import LiveCluster
from spark_tools.source_options import WriteOptions, parse_write_options
from spark_tools.writing.plan import StreamCheckpoint, make_plan
from spark_tools.writing.rejects import RejectedRow
from spark_tools.writing.tasks import TaskSent, write_at_least_once, write_once
from spark_tools.writing.writer import RocketMQStreamWriter
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support import servers
from tests.support.processes import free_ports
from tests.support.servers import Server, topic_config, until

T = TypeVar("T")

TOPIC = "Written"


class Asking(LiveCluster):
    """Notes when it has heard that nobody knows the topic."""

    def __init__(self, name_server: str):
        super().__init__(name_server)
        self.is_told = threading.Event()

    def route(self, topic: str) -> dict[str, tuple[QueueData, BrokerData]]:
        found = super().route(topic)
        if not found:
            self.is_told.set()
        return found


class Broker:
    """One that keeps its port and its store."""

    def __init__(self, directory: Path):
        self.namesrv = servers.namesrv(directory / "namesrv")
        self.admin = AdminClient(self.namesrv.namesrv_addr)
        self._directory, self._port = directory, free_ports()[0]
        self._running = self._start()
        self.admin.create_topic(self._running.broker_addr, topic_config(TOPIC, 2))
        wait_for_route(self.admin, TOPIC)

    def _start(self) -> Server:
        return servers.broker(self._directory / "b", self.namesrv.namesrv_addr, "broker-a", "--port", str(self._port))

    def away_until_asked(self, act: Callable[[LiveCluster], T]) -> T:
        """What ``act`` returns, which begins while the broker is away."""
        self._running.stop(signal.SIGKILL)
        until(lambda: TOPIC not in self.admin.topic_list())
        with Asking(self.namesrv.namesrv_addr) as cluster, ThreadPoolExecutor(1) as thread:
            future = thread.submit(act, cluster)
            assert cluster.is_told.wait(60)
            self._running = self._start()
            return future.result(300)

    def stored(self) -> int:
        return sum(self.admin.max_offset(self._running.broker_addr, TOPIC, queue_id) for queue_id in range(2))

    def stop(self) -> None:
        self._running.stop()
        self.admin.close()
        self.namesrv.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.stop()


def options(name_server: str, **more: str) -> WriteOptions:
    return parse_write_options({"nameServer": name_server, "topic": TOPIC, **more})


def rows() -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(100)]})])


def test_tasks_that_begin_while_the_broker_restarts_reject_nothing(broker: Broker) -> None:
    given = options(broker.namesrv.namesrv_addr)
    with LiveCluster(given.name_server) as cluster:
        plan = make_plan(cluster, TOPIC)

    def plain(cluster: LiveCluster) -> TaskSent:
        return write_at_least_once(given, cluster, 0, rows())

    def numbered(cluster: LiveCluster) -> TaskSent:
        return write_once(given, plan, plan.write_id, cluster, 0, rows())

    def by_column(cluster: LiveCluster) -> TaskSent:
        named = parse_write_options({"nameServer": given.name_server})
        return write_at_least_once(named, cluster, 0, (each.append_column("topic", topics) for each in rows()))

    topics = pa.array([TOPIC] * 100)
    for count, write in enumerate((plain, numbered, by_column), 1):
        sent = broker.away_until_asked(write)
        assert (sent.stored, sent.rejects.count, broker.stored()) == (100, 0, 100 * count)


def test_a_later_batch_of_a_stream_waits_for_the_broker(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "1").touch()
    checkpoint = StreamCheckpoint(str(tmp_path))
    assert len(broker.away_until_asked(lambda cluster: checkpoint.plan(cluster, TOPIC)).queues) == 2


def test_the_first_batch_of_a_stream_waits_for_nobody(broker: Broker, tmp_path: Path) -> None:
    """The name may be wrong. Of later ones the tasks wait, and the driver does not even ask."""
    given = options(broker.namesrv.namesrv_addr, checkpointLocation=str(tmp_path / "checkpoint"))
    RocketMQStreamWriter(given, [("body", "string")])
    for delivery in ("at-least-once", "idempotent"):
        other = options(given.name_server, topic="Other", delivery=delivery, checkpointLocation=str(given.checkpoint))
        with pytest.raises(NotFoundError, match="no name server knows the topic Other"):
            RocketMQStreamWriter(other, [("body", "string")])
    nowhere = options("127.0.0.1:1", checkpointLocation=str(given.checkpoint))
    with pytest.raises(ConnectError):
        RocketMQStreamWriter(nowhere, [("body", "string")])
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "1").touch()
    RocketMQStreamWriter(nowhere, [("body", "string")])


def test_a_topic_that_a_row_names_is_rejected_at_once(broker: Broker) -> None:
    """Nobody knows whether it was ever there."""
    batch = pa.RecordBatch.from_pydict({"topic": ["Nowhere", TOPIC], "body": [b"1", b"2"]})
    given = parse_write_options({"nameServer": broker.namesrv.namesrv_addr})
    with LiveCluster(given.name_server) as cluster:
        sent = write_at_least_once(given, cluster, 0, iter([batch]))
    (row,) = sent.rejects.rows
    assert (sent.stored, row) == (
        1, RejectedRow(0, 0, "Nowhere", 0, "no name server knows the topic Nowhere", b"1", row.properties),
    )  # fmt: skip
