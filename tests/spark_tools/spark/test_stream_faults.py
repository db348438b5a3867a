"""Each message once in Parquet, whatever dies on the way."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.servers import topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.spark_tools.spark.foreach_driver import write_each
from tests.spark_tools.spark.spark_processes import Driver, python_workers
from tests.spark_tools.spark.streamed import (
    Sender,
    StreamDriver,
    batches_logged,
    drain,
    each_once,
    rows,
    settle,
    start_stream,
)
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PATIENT, BrokerSet
from tests.support.processes import free_ports
from tests.support.servers import Server, until

pytestmark = [pytest.mark.spark, pytest.mark.spark_faults]

TOPIC = "Streamed"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Brokers:
    """Plain brokers of a name server, which keep their ports and stores over restarts."""

    def __init__(self, directory: Path, stack: ExitStack):
        self.namesrv = stack.enter_context(servers.namesrv(directory / "namesrv"))
        self.admin = stack.enter_context(AdminClient(self.namesrv.namesrv_addr))
        self.running: dict[str, Server] = {}
        self._directory = directory
        self._ports = dict(zip(("broker-a", "broker-b"), free_ports(), strict=True))
        stack.callback(lambda: [each.stop() for each in self.running.values()])

    def start(self, name: str) -> str:
        port = str(self._ports[name])
        self.running[name] = servers.broker(self._directory / name, self.namesrv.namesrv_addr, name, "--port", port)
        return self.running[name].broker_addr

    def resize(self, name: str, queues: int) -> None:
        self.admin.create_topic(self.running[name].broker_addr, topic_config(TOPIC, queues))
        until(lambda: (name, queues) in self._routed())

    def _routed(self) -> list[tuple[str, int]]:
        if TOPIC not in self.admin.topic_list():
            return []
        return [(each.broker_name, each.read_queue_nums) for each in self.admin.topic_route(TOPIC).queue_datas]


def test_a_killed_driver(spark, tmp_path: Path, stack: ExitStack) -> None:
    """It dies in its fourth batch; another session goes on with its checkpoint."""
    brokers = Brokers(tmp_path, stack)
    address = brokers.start("broker-a")
    brokers.resize("broker-a", 2)
    sender = Sender(brokers.admin, TOPIC)
    sender.send(400, address)
    source = {"nameServer": brokers.namesrv.namesrv_addr, "subscribe": TOPIC, "startingOffsets": "earliest"}
    driver = StreamDriver(source | {"maxOffsetsPerTrigger": "20"}, tmp_path)
    stack.callback(driver.kill)
    until(lambda: batches_logged(tmp_path) >= 4)
    driver.kill()
    assert batches_logged(tmp_path) < 20, "there was more to read"
    drain(spark, source, tmp_path)
    assert rows(spark, tmp_path) == each_once(400)


def test_a_driver_that_dies_between_a_function_and_the_checkpoint(spark, tmp_path: Path, stack: ExitStack) -> None:
    """``foreachBatch`` is called again with the same number and the same rows, although more could be read by then."""
    brokers = Brokers(tmp_path, stack)
    address = brokers.start("broker-a")
    brokers.resize("broker-a", 2)
    sender = Sender(brokers.admin, TOPIC)
    sender.send(100, address)
    source = {"nameServer": brokers.namesrv.namesrv_addr, "subscribe": TOPIC, "startingOffsets": "earliest"}
    call = {"source": source | {"maxOffsetsPerTrigger": "20"}, "directory": str(tmp_path)}
    Driver("foreach_driver.py", call | {"dies_in": 2}).wait_for_its_end()
    sender.send(50, address)
    write_each(spark, source, str(tmp_path))
    calls = [int(line) for line in (tmp_path / "calls").read_text().split()]
    assert calls == [0, 1, 2, 2, 3]
    found = spark.read.parquet(f"{tmp_path}/rows").groupBy("batch").count().collect()
    assert {row.batch: row["count"] for row in found} == {0: 20, 1: 20, 2: 20, 3: 90}
    assert rows(spark, tmp_path) == each_once(150)


def test_brokers_and_workers_that_die_and_queues_and_brokers_that_come(spark, tmp_path: Path, stack: ExitStack) -> None:
    brokers = Brokers(tmp_path, stack)
    address = brokers.start("broker-a")
    brokers.resize("broker-a", 4)
    sender = Sender(brokers.admin, TOPIC)
    sender.send(100, address, queues=4)
    source = {"nameServer": brokers.namesrv.namesrv_addr, "subscribe": TOPIC, "startingOffsets": "earliest"}
    query = start_stream(spark, source | {"maxOffsetsPerTrigger": "30"}, tmp_path)
    stack.callback(query.stop)
    settle(query)
    sender.send(100, address, queues=4)
    brokers.running["broker-a"].stop(signal.SIGKILL)
    planned = batches_logged(tmp_path)
    brokers.start("broker-a")
    brokers.resize("broker-a", 8)
    sender.send(100, address, queues=8)
    until(lambda: batches_logged(tmp_path) > planned)
    for pid in python_workers(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    settle(query)
    other = brokers.start("broker-b")
    brokers.resize("broker-b", 2)
    sender.send(100, other, "broker-b")
    settle(query)
    assert query.exception() is None
    assert rows(spark, tmp_path) == each_once(400)


def test_a_set_that_fails_over(spark, tmp_path: Path, stack: ExitStack) -> None:
    controller = stack.enter_context(servers.controller(tmp_path / "controller"))
    namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
    admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
    made = BrokerSet(tmp_path, controller.controller_addr, namesrv, admin)
    stack.callback(lambda: [server.stop() for server in made.brokers.values()])
    for number in (1, 2):
        made.start(number, **PATIENT)
        until(lambda number=number: made.brokers[number].broker_addr in made.in_sync_addrs())
    first, second = (made.brokers[number].broker_addr for number in (1, 2))
    admin.create_topic(first, topic_config(TOPIC, 2))
    until(lambda: TOPIC in admin.topic_list())
    until(lambda: TOPIC in admin.all_topics(second).topic_config_table)
    admin.create_group(first, SubscriptionGroupConfig(group_name="spark-job"))
    until(lambda: "spark-job" in admin.all_groups(second).subscription_group_table)
    sender = Sender(admin, TOPIC)
    sender.send(20, first, BROKER_NAME)
    source = {"nameServer": namesrv.namesrv_addr, "subscribe": TOPIC, "startingOffsets": "earliest"}
    query = start_stream(spark, source | {"maxOffsetsPerTrigger": "10", "commitGroup": "spark-job"}, tmp_path)
    stack.callback(query.stop)
    settle(query)  # the first batch is slow on a busy machine
    planned = batches_logged(tmp_path)
    sender.send(80, first, BROKER_NAME)
    until(lambda: batches_logged(tmp_path) > planned)
    made.brokers[1].stop(signal.SIGKILL)
    until(lambda: made.takes(2))
    sender.send(100, second, BROKER_NAME)
    settle(query)
    assert query.exception() is None
    assert rows(spark, tmp_path) == each_once(200)
    # What operators see moves on at the new master. The last batch is committed when the next one is planned.
    until(lambda: sum(admin.consumer_offset(second, "spark-job", TOPIC, at) or 0 for at in (0, 1)) == 200)
