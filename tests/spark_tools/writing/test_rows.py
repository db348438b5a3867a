"""The columns that a frame needs to be written to a topic. Errors appear when the query is planned, not in its
tasks."""

from types import SimpleNamespace
from typing import cast

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, ClusterInfo, QueueData
from rmqproto.errors import NotConnectedError, NotFoundError, UsageError
from rmqproto.message.properties import KEYS, parse
from rmqreplay.sending.delivery import Outgoing
from rmqreplay.source.live import LiveCluster
from spark_tools.source_options import parse_write_options
from spark_tools.writing.rejects import RejectedRow, Rejects
from spark_tools.writing.rows import INPUT_COLUMNS, TaskRows, check_input, writable_queues


def check(columns: dict[str, str] | list[tuple[str, str]], **options: str) -> None:
    listed = list(columns.items()) if isinstance(columns, dict) else columns
    check_input(listed, parse_write_options({"nameServer": "h:1", **options}))


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
        told = ClusterInfo(broker_addr_table={"broker-z": BrokerData(broker_name="broker-z", broker_addrs={})})
        self.admin = SimpleNamespace(cluster_info=lambda: told)
        for queue, _ in self._route.values():
            queue.perm = perm

    def route(self, topic: str) -> dict[str, tuple[QueueData, BrokerData]]:
        return self._route

    def broker(self, name: str) -> BrokerData:
        return self._route[name][1]


def rows_of(cluster: Cluster, row: dict[str, object], **options: str) -> tuple[list[Outgoing], Rejects]:
    made = TaskRows(
        parse_write_options({"nameServer": "h:1", "topic": "T", **options}), cast(LiveCluster, cluster), task=3
    )
    return list(made.messages(iter([pa.RecordBatch.from_pylist([{"body": b"x", **row}])]))), made.rejects


def message(cluster: Cluster, options: dict[str, str] | None = None, **row: object) -> Outgoing:
    ((made,), rejects) = rows_of(cluster, row, **(options or {}))
    assert not rejects.count
    return made


def rejection(cluster: Cluster, options: dict[str, str] | None = None, **row: object) -> RejectedRow:
    (none, rejects) = rows_of(cluster, row, **(options or {}))
    assert none == []
    (found,) = rejects.rows
    return found


def test_a_queue_id_alone_is_used_where_one_broker_has_the_topic():
    assert message(Cluster("broker-a"), queueId=3).target == MessageQueue("T", "broker-a", 3)
    assert message(Cluster("broker-a")).target is None


def test_a_row_that_names_no_queue_is_rejected_and_the_others_are_sent_once():
    """It was an error in the middle of a task, and Spark then sent the rows before it four times."""
    several = rejection(Cluster("broker-a", "broker-b"), queueId=3)
    assert several.remark == "it has queueId 3 and no brokerName, and broker-a, broker-b have the topic"
    assert "has no queueId" in rejection(Cluster("broker-a"), queueId=None, brokerName="broker-a").remark
    beyond = rejection(Cluster("broker-a"), queueId=5)
    assert beyond.remark == "there is no queue 5 of T on broker-a that can be written"
    assert (beyond.task, beyond.row, beyond.topic, beyond.body) == (3, 0, "T", b"x")
    named = parse_write_options({"nameServer": "h:1"})
    made = TaskRows(named, cast(LiveCluster, Cluster()), task=0)
    assert list(made.messages(iter([pa.RecordBatch.from_pylist([{"body": b"x", "topic": "Gone"}])]))) == []
    assert made.rejects.first == "row 0 of task 0, for Gone: no name server knows the topic Gone (0)"


def test_a_topic_that_cannot_be_written_is_not_called_missing():
    with pytest.raises(NotFoundError, match=r"cannot be written: no broker .* has a queue of it with write permission"):
        writable_queues(cast(LiveCluster, Cluster("broker-a", perm=4)), "T")
    with pytest.raises(NotFoundError, match="no name server knows the topic T"):
        writable_queues(cast(LiveCluster, Cluster()), "T")


def test_a_topic_whose_broker_has_no_master_now_is_not_called_wrong():
    """A slave is left of it, which may become master."""
    cluster = Cluster("broker-a")
    cluster.broker("broker-a").broker_addrs = {1: "127.0.0.1:1"}
    with pytest.raises(NotConnectedError, match="broker-a, which has the topic T, has no master now"):
        writable_queues(cast(LiveCluster, cluster), "T")


def test_a_broker_without_a_master_is_waited_for_where_a_row_names_it():
    """Its slaves tell name servers its topics: another name is wrong."""

    class Electing(Cluster):
        def forget_route(self, topic: str) -> None:
            assert topic == "T", "no time makes another name right"
            self._route = route("broker-a", "broker-b")

    cluster = Electing("broker-a", "broker-b")
    cluster.broker("broker-b").broker_addrs.clear()
    options = parse_write_options({"nameServer": "h:1"})
    made = TaskRows(options, cast(LiveCluster, cluster), task=0, brokers=frozenset({"broker-z"}))
    named = {"topic": "T", "body": b"x", "brokerName": "broker-b"}
    (sent,) = made.messages(iter([pa.RecordBatch.from_pylist([named | {"queueId": 3}, named | {"queueId": 9}])]))
    assert (sent.target, made.rejects.count) == (MessageQueue("T", "broker-b", 3), 1)
    cluster._route = {}
    assert list(made.messages(iter([pa.RecordBatch.from_pylist([{"topic": "Gone", "body": b"x"}])]))) == []


def test_a_broker_without_a_master_is_not_waited_for_where_its_queues_take_no_messages():
    cluster = Cluster("broker-a", "broker-b")
    cluster.route("T")["broker-b"][0].perm = 4
    cluster.broker("broker-b").broker_addrs.clear()
    assert "no queue 3 of T on broker-b" in rejection(cluster, queueId=3, brokerName="broker-b").remark


def test_queues_are_those_that_a_java_producer_chooses_from():
    cluster = Cluster("broker-b", "broker-a", "broker-0")
    cluster.broker("broker-0").broker_addrs.clear()
    names = [(queue.broker_name, queue.queue_id) for queue in writable_queues(cast(LiveCluster, cluster), "T")]
    assert names == [(name, queue_id) for name in ("broker-a", "broker-b") for queue_id in range(4)]
    hashed = message(cluster, {"queueSelector": "javaHash"}, shardingKey="customer-1").target
    assert hashed == MessageQueue("T", "broker-b", 2), "hashCode is -1581185534"
    assert message(cluster, {"queueSelector": "javaHash"}, shardingKey=None).target is None


def test_what_the_broker_chooses_a_place_for_is_sent_alone():
    """In a batch it would be stored at once, where all see it."""
    for name in ("DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "_SYS_MSG_PRIORITY_"):
        assert message(Cluster("broker-a"), properties={name: "3"}).alone, name
    assert message(Cluster("broker-a"), delayTimeLevel=3).alone
    assert message(Cluster("broker-a"), deliverTimestamp=5).alone
    assert not message(Cluster("broker-a"), properties={"TIMER_OUT_MS": "5", "TRAN_MSG": "false"}).alone


def test_half_of_a_transaction_is_rejected():
    """Nobody would end it, and no consumer see it."""
    assert "half of a transaction" in rejection(Cluster("broker-a"), properties={"TRAN_MSG": "true"}).remark


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"INNER_NUM": "3"}, "its property INNER_NUM says that it is a batch"),
        ({"DELAY": "soon"}, "its delay level is no number: DELAY is 'soon'"),
    ],
)
def test_properties_that_a_broker_stumbles_over_are_rejected(properties: dict[str, str], problem: str) -> None:
    """It answers with a system error, or refuses what has a number already: the whole write failed, with nothing said
    of the row."""
    assert rejection(Cluster("broker-a"), properties=properties).remark == problem
    assert message(Cluster("broker-a"), properties={"DELAY": "-3"}).alone


def test_keys_are_a_text_or_an_array():
    assert parse(message(Cluster("broker-a"), keys="a b").properties)[KEYS] == "a b"
    assert parse(message(Cluster("broker-a"), keys=["a", None, "b"]).properties)[KEYS] == "a b"
    assert KEYS not in parse(message(Cluster("broker-a"), keys=[]).properties)
    assert rejection(Cluster("broker-a"), keys=["a b"]).remark == "one of its keys has a blank, which separates keys"


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
        ({"body": "string"}, {"topic": "T", "subscribe": "T"}, "option subscribe is for reading"),
        ([("body", "string"), ("body", "binary")], {"topic": "T"}, "there are two columns body"),
    ],
)
def test_what_would_be_ignored_or_fail_later_is_refused(columns, options, problem):
    with pytest.raises(UsageError, match=problem):
        check(columns, **options)
