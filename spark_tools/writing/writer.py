"""``df.write.format("rocketmq")``: at least once. A request without an answer is sent again, and a task that Spark
restarts sends its rows again. Use a replay with its ledger if that is not good enough."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from rmqreplay.sending.delivery import Answer, Batch, BatchOutcome, Limits, TaskDelivery
from rmqreplay.sending.permits import Entered, Granted, PermitBook, Wait
from rmqreplay.sending.sender import BatchSender, ChooseQueue, round_robin
from rmqreplay.source.live import LiveCluster
from spark_tools.hints import hints_in_text
from spark_tools.source_options import WriteOptions
from spark_tools.writing.columns import check_input
from spark_tools.writing.rejects import Rejects, check_reject_path, settle
from spark_tools.writing.rows import TaskRows, writable_queues

if TYPE_CHECKING:
    import pyarrow as pa

_NO_END = float("inf")


@dataclass
class WriteReport(WriterCommitMessage):
    """The result of one task."""

    sent: int
    weak: int
    doubtful: int
    rejects: Rejects = field(default_factory=Rejects)


class RocketMQWriter(DataSourceArrowWriter):
    """Checks the columns and the topic when the query is planned, and sends in each task."""

    def __init__(self, options: WriteOptions, columns: Sequence[tuple[str, str]]):
        check_input(columns, options)
        check_reject_path(options.reject_path)
        self._options = options
        if options.topic is not None:
            with open_cluster(options) as cluster:
                writable_queues(cluster, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReport:
        """Returns when every message of the task is acknowledged or rejected."""
        context = TaskContext.get()
        assert context is not None
        with hints_in_text(), open_cluster(self._options) as cluster:
            task = WriteTask(self._options, cluster, context.partitionId())
            try:
                return task.run(iterator)
            finally:
                task.close()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Writes rejected rows to ``rejectPath``, or raises RejectedError. Every task has sent all its messages."""
        reports = [each for each in messages if isinstance(each, WriteReport)]
        with hints_in_text():
            settle([each.rejects for each in reports], sum(each.sent for each in reports), self._options.reject_path)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: sent messages stay sent."""


def open_cluster(options: WriteOptions) -> LiveCluster:
    return LiveCluster(options.name_server, options.credentials, tls=options.tls, address_map=options.address_map)


class WriteTask:
    """Sends the messages of one task. It also serves as the delivery's target, which is never looked at, and as its
    permits, which only limit this task's rate."""

    def __init__(self, options: WriteOptions, cluster: LiveCluster, task: int):
        self._options = options
        self._cluster = cluster
        self._rows = TaskRows(options, cluster, task)
        self._addresses: dict[str, str] = {}
        self._topics: set[str] = set()
        self._book = PermitBook(time.monotonic, settle_s=0.0, rate=options.rate_max, byte_rate=options.byte_rate_max)
        self._book.open_wave(0, recovering=False)
        self._book.enter(0, 0, 0)
        self._choosers: dict[str, ChooseQueue] = {}
        self._sender = BatchSender(
            self._addresses, self._choose, producer_group=options.producer_group,
            send_timeout_s=options.send_timeout_ms / 1000, credentials=options.credentials, tls=options.tls,
            address_map=options.address_map,
        )  # fmt: skip

    def run(self, batches: Iterator[pa.RecordBatch]) -> WriteReport:
        limits = Limits(self._options.batch_size, self._options.in_flight_max)
        done = TaskDelivery(self, self, time.monotonic, time.sleep, limits).run(self._rows.messages(batches))
        return WriteReport(len(done.stored), done.weak_count, done.doubtful_count, self._rows.rejects)

    def _choose(self, batch: Batch) -> MessageQueue:
        topic = batch.messages[0].topic
        if topic not in self._choosers:
            self._choosers[topic] = round_robin(self._rows.queues(topic))
        return self._choosers[topic](batch)

    def _find_masters(self, topic: str) -> None:
        """Learns where the masters are now. While that cannot be told, the known addresses are tried again."""
        with contextlib.suppress(RocketMQError):
            self._cluster.forget_route(topic)
            self._learn(topic)

    def _learn(self, topic: str) -> None:
        for name, (_, broker) in self._cluster.route(topic).items():
            if broker.master_addr is not None:
                self._addresses[name] = broker.master_addr

    # -- target and permits

    def enter(self) -> Entered:
        return Entered(must_look=False)

    def ask(self, count: int, size_bytes: int) -> Granted | Wait:
        answer = self._book.ask(0, 0, 0, count, size_bytes)
        assert not isinstance(answer, Entered)
        return answer if isinstance(answer, Wait) else Granted(getattr(answer, "count", count), _NO_END)

    def extend(self) -> Granted:
        return Granted(0, _NO_END)

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        topic = batch.messages[0].topic
        if topic not in self._topics:
            self._topics.add(topic)
            self._learn(topic)
        return self._sender.put(batch, not_after, extend)

    def outcomes(self) -> list[BatchOutcome]:
        found = self._sender.outcomes()
        for each in found:
            first = each.batch.messages[0]
            if each.answer is Answer.ILLEGAL and len(each.batch.messages) == 1:
                self._rows.reject(first, each.code, each.remark)
            elif each.answer in (Answer.BUSY, Answer.IN_DOUBT):
                self._find_masters(first.topic)
        return found

    def settle(self) -> None:
        """Waits for nothing: messages in doubt are sent again."""

    def look(self) -> set[str]:
        return set()

    def close(self) -> None:
        self._sender.close()
