"""Parts of a running write die. ``delivery=idempotent`` stores each row once; at-least-once stores some twice, else the
fault would prove nothing. No row is ever lost."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqproto.message.record import decode_records_untrusted
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import PullRules, pull_range
from spark_tools.writing.plan import FILE
from tests.rmqreplay.replay_lab import Lab, kill_once, wait_for_route
from tests.spark_tools.spark.spark_processes import Driver, kill_amid_all, python_workers
from tests.spark_tools.spark.write_driver import write_streams

pytestmark = pytest.mark.spark

COUNT = 600
DELIVERIES = ("at-least-once", "idempotent")


@pytest.fixture(autouse=True)
def _calm(lab: Lab) -> Iterator[None]:
    lab.proxy.calm()
    yield
    lab.proxy.calm()


def make_topic(lab: Lab, name: str) -> str:
    lab.admin.create_topic(lab.broker_addr, topic_config(name, 3))
    wait_for_route(lab.admin, name)
    return name


def stored(lab: Lab, topic: str) -> Counter[bytes]:
    with LiveCluster(lab.name_server) as cluster:
        return Counter(
            message.body
            for queue in cluster.queues(topic)
            for body in pull_range(cluster, OffsetRange(queue, *cluster.bounds(queue)), PullRules())
            for message in decode_records_untrusted(body)
        )


def check(found: Counter[bytes], wanted: set[bytes], delivery: str) -> None:
    assert found.keys() == wanted
    doubled = sum(found.values()) - len(found)
    assert (doubled == 0) == (delivery == "idempotent"), doubled


def test_killed_writers(lab: Lab, spark) -> None:
    """Both Python writers die midway, and Spark starts their tasks again from the first row."""
    for delivery in DELIVERIES:
        topic = make_topic(lab, f"killed-writers-{delivery}")
        lab.proxy.calm()
        lab.proxy.delay_s = 0.003
        lab.proxy.on_send = kill_once(lambda _: python_workers(os.getpid()), at_send=COUNT // 10)
        frame = spark.range(COUNT, numPartitions=2).selectExpr("cast(id as string) as body", "array('k') as keys")
        frame.write.format("rocketmq").mode("append").options(
            nameServer=lab.name_server, topic=topic, delivery=delivery, batchSize="5"
        ).save()
        lab.proxy.calm()
        check(stored(lab, topic), {b"%d" % number for number in range(COUNT)}, delivery)


def test_a_killed_driver_of_streams(lab: Lab, spark, tmp_path: Path) -> None:
    """The driver is killed in the second of three batches, and another goes on with the same checkpoint, when the topic
    has more queues."""
    files = tmp_path / "files"
    files.mkdir()
    for part in range(3):
        numbers = range(part * COUNT // 3, (part + 1) * COUNT // 3)
        (files / f"{part}.txt").write_text("".join(f"{number}\n" for number in numbers))
    streams = [[make_topic(lab, f"killed-driver-{each}"), each, str(tmp_path / each)] for each in DELIVERIES]
    call = {"name_server": lab.name_server, "files": str(files), "streams": streams}
    lab.proxy.delay_s = 0.003
    driver = Driver("write_driver.py", call)
    lab.proxy.on_send = kill_amid_all(driver.kill, {topic for topic, *_ in streams}, at_send=COUNT // 2)
    driver.wait_for_its_end()
    lab.proxy.calm()
    for topic, _, checkpoint in streams:
        assert {each.name for each in Path(checkpoint, "commits").iterdir() if each.name.isdecimal()} == {"0"}
        lab.admin.create_topic(lab.broker_addr, topic_config(topic, 6))
    write_streams(spark, **call)
    for topic, delivery, _ in streams:
        check(stored(lab, topic), {b"%d" % number for number in range(COUNT)}, delivery)
    assert Path(tmp_path, "idempotent", FILE).exists()
