"""``df.write.format("rocketmq")`` and ``df.writeStream.format("rocketmq")``: what Spark calls, on the driver and in
tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rmqproto.errors import RocketMQError, UsageError
from rmqreplay.source.live import LiveCluster
from spark_tools.source_options import WriteOptions
from spark_tools.spark_worker import hints_in_text, spare_modules
from spark_tools.writing.plan import StreamCheckpoint, WritePlan, is_first_batch, make_plan
from spark_tools.writing.rejects import check_reject_directory, check_reject_path, settle
from spark_tools.writing.rows import check_input, known_brokers, writable_queues
from spark_tools.writing.stored import check_nothing_else
from spark_tools.writing.tasks import TaskSent, write_at_least_once, write_once

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties by which Spark tells tasks what they work for."""


@dataclass
class WriteReport(WriterCommitMessage):
    """The result of one task. ``repeated``: the plan, if the batch was begun before; ``producer``: what its tasks are
    called after."""

    sent: TaskSent
    repeated: WritePlan | None = None
    producer: str = ""


class RocketMQWriter(DataSourceArrowWriter):
    """A write of a frame. Spark makes it on the driver, when it plans the query, and copies it to the tasks."""

    def __init__(self, options: WriteOptions, columns: Sequence[tuple[str, str]]):
        check_input(columns, options)
        check_reject_path(options.reject_path)
        self._options = options
        self._plan: WritePlan | None = None
        self._brokers = frozenset[str]()
        with _cluster(options) as cluster:
            if options.topic is not None and options.is_idempotent:
                self._plan = make_plan(cluster, options.topic)
                return
            if options.topic is not None:
                writable_queues(cluster, options.topic)
            self._brokers = known_brokers(cluster)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReport:
        """Returns when every message of the task is acknowledged or rejected."""
        return _write(self._options, self._plan, self._plan.write_id if self._plan else "", iterator, self._brokers)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Writes rejected rows to ``rejectPath``, or raises RejectedError. Every task has sent all its messages."""
        _commit(messages, self._options.reject_path)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: sent messages stay sent."""


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """A batch of a stream. Spark makes one on the driver to plan the batch, and another to commit it."""

    def __init__(self, options: WriteOptions, columns: Sequence[tuple[str, str]]):
        check_input(columns, options)
        check_reject_directory(options.reject_path)
        self._options = options
        self._plan: WritePlan | None = None
        self._brokers = frozenset[str]()
        with _cluster(options) as cluster:
            if options.topic is not None and options.is_idempotent:
                if options.checkpoint is None:
                    raise UsageError("delivery=idempotent needs the option checkpointLocation, where it keeps its plan")
                self._plan = StreamCheckpoint(options.checkpoint).plan(cluster, options.topic)
                return
            self._brokers = known_brokers(cluster)
            try:
                if options.topic is not None:
                    writable_queues(cluster, options.topic)
            except RocketMQError:
                if is_first_batch(options.checkpoint):  # later ones wait for the topic in their tasks
                    raise

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReport:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if self._plan is not None and (query is None or batch != str(self._plan.batch_id)):
            raise RocketMQError(f"this task is of batch {batch}, and batch {self._plan.batch_id} was planned")
        return _write(self._options, self._plan, (query or "").replace("-", ""), iterator, self._brokers)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """As ``RocketMQWriter.commit``; each batch has a file of its own, which a repeated batch replaces.
        OtherRowsError if an earlier driver's attempt had other tasks."""
        path = self._options.reject_path
        _commit(messages, f"{path}.{batchId}" if path is not None else None)
        self._check_repeated(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: sent messages stay sent."""

    def _check_repeated(self, messages: list[WriterCommitMessage | None]) -> None:
        reports = {task: each for task, each in enumerate(messages) if isinstance(each, WriteReport)}
        for each in reports.values():
            if each.repeated is not None:
                counts = {task: report.sent.counts for task, report in reports.items()}
                with hints_in_text(), _cluster(self._options) as cluster:
                    check_nothing_else(cluster, each.repeated, each.producer, counts)
                return


def _cluster(options: WriteOptions) -> LiveCluster:
    return options.access.cluster(options.name_server)


def _write(
    options: WriteOptions,
    plan: WritePlan | None,
    producer: str,
    batches: Iterator[pa.RecordBatch],
    brokers: frozenset[str],
) -> WriteReport:
    context = TaskContext.get()
    assert context is not None
    spare_modules()
    with hints_in_text(), _cluster(options) as cluster:
        if plan is not None:
            is_again = context.attemptNumber() > 0
            sent = write_once(options, plan, producer, cluster, context.partitionId(), batches, is_again=is_again)
            return WriteReport(sent, plan if plan.is_repeated else None, producer)
        return WriteReport(write_at_least_once(options, cluster, context.partitionId(), batches, brokers))


def _commit(messages: list[WriterCommitMessage | None], reject_path: str | None) -> None:
    sent = [each.sent for each in messages if isinstance(each, WriteReport)]
    with hints_in_text():
        settle([each.rejects for each in sent], sum(each.stored for each in sent), reject_path)
