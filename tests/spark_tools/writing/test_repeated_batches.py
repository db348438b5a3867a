"""Batches of a stream that a new driver repeats, as Spark's driver and tasks call the writer, at a real broker and
without Spark. What the first attempt stored is never doubled without a word, whatever became of its tasks."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.servers import Fresh, topic_config

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.message.properties import PRODUCER_SEQ
from rmqreplay.sending.delivery import DeliveryError
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.queue_ranges import DataLossError
from spark_tools.source_options import WriteOptions, parse_write_options
from spark_tools.writing import stored
from spark_tools.writing import writer as writers
from spark_tools.writing.idempotent import OtherRowsError
from spark_tools.writing.writer import BATCH_ID, QUERY_ID, RocketMQStreamWriter, WriteReport
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Server

Rows = list[tuple[str, str]]
"""Each with its sharding key."""


class Stream:
    """One query of a checkpoint. ``attempt`` is a driver's; each of its tasks gets the rows of a partition."""

    def __init__(self, options: WriteOptions, monkeypatch: pytest.MonkeyPatch):
        self.options = options
        self.topic = options.topic or ""
        self._patch = monkeypatch

    def planned(self) -> RocketMQStreamWriter:
        return RocketMQStreamWriter(self.options, [("body", "string"), ("shardingKey", "string")])

    def task(self, planned: RocketMQStreamWriter, number: int, rows: Rows, attempt: int = 0) -> WriteReport:
        context = SimpleNamespace(
            partitionId=lambda: number, attemptNumber=lambda: attempt,
            getLocalProperty={QUERY_ID: "9f0c-51d2", BATCH_ID: "0"}.get,
        )  # fmt: skip
        self._patch.setattr(writers, "TaskContext", SimpleNamespace(get=lambda: context))
        batch = pa.RecordBatch.from_pydict({"body": [row for row, _ in rows], "shardingKey": [key for _, key in rows]})
        return planned.write(iter([batch]))

    def attempt(self, *partitions: Rows) -> None:
        planned = self.planned()
        reports = [self.task(planned, number, rows) for number, rows in enumerate(partitions)]
        self.planned().commit(list(reports), 0)

    def send(self, body: str, number: str | None) -> None:
        """Sends a message of somebody else."""
        with LiveCluster(self.options.name_server) as cluster:
            queue = cluster.queues(self.topic)[0]
            properties = {} if number is None else {PRODUCER_SEQ: number}
            message = Message(self.topic, body.encode(), properties=properties)
            cluster.admin.send_message(cluster.master(self.topic, queue.broker_name), queue, message)


@pytest.fixture
def stream(server: Server, admin: AdminClient, fresh: Fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    topic = fresh("Repeated")
    admin.create_topic(server.broker_addr, topic_config(topic, 3))
    wait_for_route(admin, topic)
    given = {
        "nameServer": server.namesrv_addr, "topic": topic, "delivery": "idempotent", "queueSelector": "key",
        "checkpointLocation": str(tmp_path),
    }  # fmt: skip
    return Stream(parse_write_options(given), monkeypatch)


A, B, C = [("a1", "x"), ("a2", "y")], [("b1", "x"), ("b2", "z"), ("b3", "z")], [("c1", "y")]
SAME = "delivery=idempotent needs input that is the same each time, in the same order and partitions"
GO_ON = "(all rows of this batch are stored: begin behind it with a new checkpoint)"


def refused(stream: Stream, *partitions: Rows) -> str:
    with pytest.raises(OtherRowsError) as caught:
        stream.attempt(*partitions)
    return str(caught.value).replace(stream.topic, "T")


def test_the_same_partitions_again_are_committed(stream: Stream) -> None:
    """Whatever else is in the topic: rows of other queries, of batches to come, and messages without a number."""
    stream.attempt(A, [], B)
    stream.send("other", None)
    stream.send("of a query with a longer name", "9f0c51d2-1-0:0:0")
    stream.send("of the batch after this", "9f0c51d2-7:1:0")
    stream.attempt(A, [], B)


def test_only_a_repeated_batch_is_looked_for(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "check_nothing_else", lambda *_: pytest.fail("it was"))
    stream.attempt(A, B)
    with pytest.raises(pytest.fail.Exception, match="it was"):
        stream.attempt(A, B)


def test_rows_of_tasks_that_have_vanished_end_the_batch(stream: Stream) -> None:
    """The first driver dies when two of its tasks have stored rows, and the next has one task for all."""
    planned = stream.planned()
    for number, rows in ((1, B), (2, C)):
        stream.task(planned, number, rows)
    for _ in range(2):
        assert refused(stream, A + B + C) == (
            "rows of batch 0 may be twice in T: an earlier attempt stored rows that this one, with 1 task, does not "
            f"have in their places (3 of task 1, 1 of task 2): {SAME} {GO_ON}"
        )
    assert "an earlier attempt of this task stored" in refused(stream, A, B, C)


def test_a_task_whose_first_rows_are_the_same_does_not_hide_the_rest(stream: Stream) -> None:
    planned = stream.planned()
    for number, rows in ((0, A), (1, B)):
        stream.task(planned, number, rows)
    assert "with 1 task, does not have in their places (3 of task 1)" in refused(stream, A + B)


def test_rows_of_a_task_that_has_none_now_end_the_batch(stream: Stream) -> None:
    """Also when there are more tasks than before."""
    stream.task(stream.planned(), 0, B)
    assert "with 2 tasks, does not have in their places (3 of task 0)" in refused(stream, [], B)


def test_a_task_that_a_driver_starts_again_without_rows_is_refused(stream: Stream) -> None:
    planned = stream.planned()
    stream.task(planned, 0, B)
    with pytest.raises(OtherRowsError, match=r"stored . rows? in queue . .* and this one has 0"):
        stream.task(planned, 0, [], attempt=1)


def test_of_many_tasks_some_are_named(stream: Stream) -> None:
    planned = stream.planned()
    for number in range(1, 9):
        stream.task(planned, number, A)
    assert "(2 of task 1, 2 of task 2, 2 of task 3, 2 of task 4, 2 of task 5, 6 of 3 other tasks)" in refused(stream, A)


def test_rejected_rows_are_in_their_file_when_the_batch_is_refused(stream: Stream, tmp_path: Path) -> None:
    stream.task(stream.planned(), 1, B)
    path = tmp_path / "rejected"
    stream.options = replace(stream.options, reject_path=str(path))
    refused(stream, [("", "x"), *A])
    assert b"body is empty" in (tmp_path / "rejected.0").read_bytes()


def test_what_a_broker_had_forgotten_and_stored_again_ends_the_batch(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other producers have pushed out what it knew."""
    stream.attempt(A, B)
    once = stored.numbered
    monkeypatch.setattr(stored, "numbered", lambda *range_: [*once(*range_), *once(*range_)])
    with pytest.raises(
        DeliveryError, match=r"^5 rows of .* are stored twice: .* it remembers 10,000 pairs of a producer"
    ):
        stream.attempt(A, B)


def test_what_is_gone_cannot_be_compared(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise DataLossError("offset 0 is gone", hint="failOnDataLoss=false reads what is left")

    stream.attempt([], A)
    monkeypatch.setattr(stored, "numbered", gone)
    with pytest.raises(DeliveryError) as caught:
        stream.attempt([], [])
    words = "it cannot be told whether an earlier attempt of batch 0 stored other rows: offset 0 is gone"
    assert str(caught.value) == f"{words} {GO_ON}"
