"""The columns that a frame needs to be written to a topic. Errors appear when the query is planned, not in its
tasks."""

from __future__ import annotations

from typing import cast

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, QueueData
from rmqproto.errors import NotFoundError, UsageError
from rmqreplay.source.live import LiveCluster
from spark_tools.source_options import parse_write_options
from spark_tools.writer import INPUT_COLUMNS, WriteTask, check_input


def check(columns: dict[str, str], **options: str) -> None:
    check_input(list(columns.items()), parse_write_options({"nameServer": "h:1", **options}))


def test_every_column_of_the_manual_is_taken():
    assert set(INPUT_COLUMNS) == {
        "body", "topic", "tags", "keys", "properties", "queueId", "brokerName", "shardingKey", "delayTimeLevel",
        "deliverTimestamp", "flag",
    }  # fmt: skip
    for kind in (0, -1):
        check({name: kinds[kind] for name, kinds in INPUT_COLUMNS.items()})


def route(*broker_names: str) -> dict[str, tuple[QueueData, BrokerData]]:
    """Four queues on each broker that can be written, of eight."""
    return {
        name: (
            QueueData(broker_name=name, read_queue_nums=8, write_queue_nums=4, perm=6),
            BrokerData(cluster="C", broker_name=name, broker_addrs={0: "127.0.0.1:1"}),
        )
        for name in broker_names
    }


class Cluster:
    def __init__(self, *broker_names: str, perm: int = 6):
        self._route = route(*broker_names)
        for queue, _ in self._route.values():
            queue.perm = perm

    def route(self, topic: str) -> dict[str, tuple[QueueData, BrokerData]]:
        return self._route

    def master(self, topic: str, broker_name: str) -> str:
        return "127.0.0.1:1"


def target(cluster: Cluster, **row: object) -> MessageQueue | None:
    options = parse_write_options({"nameServer": "h:1", "topic": "T"})
    task = WriteTask(options, cast(LiveCluster, cluster), MessageQueue("", "", 0))
    try:
        (batch,) = [pa.RecordBatch.from_pylist([{"body": b"x", **row}])]
        (made,) = task.messages(iter([batch]))
        return made.target
    finally:
        task.close()


def test_a_queue_id_alone_is_used_where_one_broker_has_the_topic():
    assert target(Cluster("broker-a"), queueId=3) == MessageQueue("T", "broker-a", 3)
    assert target(Cluster("broker-a")) is None


def test_a_queue_id_that_names_no_queue_is_refused():
    with pytest.raises(UsageError, match="no brokerName, and broker-a, broker-b have the topic"):
        target(Cluster("broker-a", "broker-b"), queueId=3)
    with pytest.raises(UsageError, match="has no queueId"):
        target(Cluster("broker-a"), queueId=None, brokerName="broker-a")
    with pytest.raises(NotFoundError, match="no queue 5 of T on broker-a that can be written"):
        target(Cluster("broker-a"), queueId=5)


def test_a_topic_that_cannot_be_written_is_not_called_missing():
    with pytest.raises(NotFoundError, match="cannot be written: no broker has a queue of it with write permission"):
        target(Cluster("broker-a", perm=4))
    with pytest.raises(NotFoundError, match="no name server knows the topic T"):
        target(Cluster())


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ({"topic": "string"}, {}, "a column body is needed"),
        ({"body": "binary"}, {}, "a column topic, or the option topic"),
        ({"body": "int"}, {"topic": "T"}, "body is int and should be binary or string"),
        ({"body": "string", "tag": "string"}, {"topic": "T"}, "column tag has no meaning here"),
        ({"body": "string", "properties": "map<string,int>"}, {"topic": "T"}, "properties is map<string,int>"),
        ({"body": "string"}, {"topic": "T", "queueSelector": "source"}, "needs the columns brokerName and queueId"),
        ({"body": "string"}, {"topic": "T", "queueSelector": "key"}, "needs the column shardingKey"),
        ({"body": "string", "brokerName": "string"}, {"topic": "T"}, "brokerName needs the column queueId"),
        (
            {"body": "string", "shardingKey": "string", "queueId": "int"},
            {"topic": "T", "queueSelector": "key"},
            "leave one of them out",
        ),
        ({"body": "string"}, {"topic": "T", "onReject": "file"}, "belong together"),
        ({"body": "string"}, {"topic": "T", "rejectPath": "/x"}, "belong together"),
        ({"body": "string"}, {"topic": "T", "batchsizes": "3"}, "no option batchsizes"),
    ],
)
def test_what_would_be_ignored_or_fail_later_is_refused(columns, options, problem):
    with pytest.raises(UsageError, match=problem):
        check(columns, **options)
