"""Name servers know nothing of a topic while its broker restarts. Whatever begins then waits: no row is rejected for
it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from rmqproto.codes import PERM_READ
from rmqproto.errors import ConnectError, NotFoundError
from rmqreplay.sending.delivery import DeliveryError
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.pulling import READ_TIMEOUT_S
from spark_tools.source_options import WriteOptions, parse_write_options
from spark_tools.writing.plan import StreamCheckpoint, make_plan
from spark_tools.writing.rejects import RejectedRow
from spark_tools.writing.rows import known_brokers
from spark_tools.writing.tasks import TaskSent, write_at_least_once, write_once
from spark_tools.writing.writer import RocketMQStreamWriter
from tests.rmqreplay.away import NAME, TOPIC, AwayBroker
from tests.support import servers
from tests.support.servers import topic_config, until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[AwayBroker]:
    made = AwayBroker(tmp_path)
    yield made
    made.stop()


def options(name_server: str, **more: str) -> WriteOptions:
    return parse_write_options({"nameServer": name_server, "topic": TOPIC, **more})


def rows() -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(100)]})])


def test_tasks_that_begin_while_the_broker_restarts_reject_nothing(broker: AwayBroker) -> None:
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


def test_a_topic_that_is_deleted_or_closed_meanwhile_is_not_waited_for(broker: AwayBroker) -> None:
    """Spark starts a failed task again, three times: each waited two minutes for a topic that nobody would bring back.
    A broker takes messages for a topic that is closed, as Apache's does; producers do not send them."""
    given = options(broker.namesrv.namesrv_addr)
    begun_s = time.monotonic()
    with LiveCluster(given.name_server) as cluster:
        plan, there = make_plan(cluster, TOPIC), known_brokers(cluster)
    broker.create(TOPIC, perm=PERM_READ)
    until(lambda: broker.admin.topic_route(TOPIC).queue_datas[0].perm == PERM_READ)
    with LiveCluster(given.name_server) as cluster, pytest.raises(NotFoundError, match="cannot be written"):
        write_at_least_once(given, cluster, 0, rows(), there)
    broker.delete(TOPIC)
    with LiveCluster(given.name_server) as cluster:
        with pytest.raises(NotFoundError, match="no name server knows"):
            write_at_least_once(given, cluster, 0, rows(), there)
        with pytest.raises(DeliveryError, match="not exist"):
            write_once(given, plan, plan.write_id, cluster, 0, rows(), is_again=True)
    assert time.monotonic() - begun_s < READ_TIMEOUT_S / 2


def test_a_later_batch_of_a_stream_waits_for_the_broker(broker: AwayBroker, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "1").touch()
    checkpoint = StreamCheckpoint(str(tmp_path))
    assert len(broker.away_until_asked(lambda cluster: checkpoint.plan(cluster, TOPIC)).queues) == 2


def test_the_first_batch_of_a_stream_waits_for_nobody(broker: AwayBroker, tmp_path: Path) -> None:
    """The name may be wrong. Of later ones the tasks wait."""
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


def test_a_topic_that_a_row_names_is_rejected_at_once(broker: AwayBroker) -> None:
    """No broker is away that could have it."""
    batch = pa.RecordBatch.from_pydict({"topic": ["Nowhere", TOPIC, "Nowhere"], "body": [b"1", b"2", b"3"]})
    given = parse_write_options({"nameServer": broker.namesrv.namesrv_addr})
    with LiveCluster(given.name_server) as cluster:
        sent = write_at_least_once(given, cluster, 0, iter([batch]), frozenset({"broker-a"}))
    row, other = sent.rejects.rows
    assert (sent.stored, row) == (
        1, RejectedRow(0, 0, "Nowhere", 0, "no name server knows the topic Nowhere", b"1", row.properties),
    )  # fmt: skip
    assert other.remark == row.remark


def test_what_a_row_names_is_waited_for_while_a_broker_is_away_that_was_there(
    broker: AwayBroker, tmp_path: Path
) -> None:
    """Beside another broker that is there: its topic, and its queue of a topic that both have."""
    with servers.broker(tmp_path / "z", broker.namesrv.namesrv_addr, "broker-z") as other:
        broker.admin.create_topic(other.broker_addr, topic_config("Both", 2))
        broker.create("Both")
        until(lambda: len(broker.admin.topic_route("Both").queue_datas) == 2)
        given = parse_write_options({"nameServer": broker.namesrv.namesrv_addr})
        with LiveCluster(given.name_server) as cluster:
            there = known_brokers(cluster)
        for named in ({"topic": TOPIC}, {"topic": "Both", "brokerName": NAME, "queueId": 1}):
            batch = pa.RecordBatch.from_pylist([{"body": b"1", **named}] * 10)

            def write(cluster: LiveCluster, batch: pa.RecordBatch = batch) -> TaskSent:
                return write_at_least_once(given, cluster, 0, iter([batch]), there)

            sent = broker.away_until_asked(write)
            assert (sent.stored, sent.rejects.count) == (10, 0)
