"""A task of a write, without Spark: rows in, a report out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.message.record import StoredMessage
from rmqproto.message.special_messages import REPEATS_KNOWN
from rmqproto.wording import counted
from rmqreplay.ledger.ledger import Fence
from rmqreplay.sending.delivery import Answer, Batch, BatchOutcome, DeliveryError, Limits, TaskDelivery
from rmqreplay.sending.permits import Denied, Entered, Granted, PermitBook, Wait
from rmqreplay.sending.sender import BatchSender, ChooseQueue, round_robin, unless_refused
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange, queue_text
from rmqserver.store.sequences.sequence_table import LINES_MAX
from spark_tools.source_options import WriteOptions
from spark_tools.writing.idempotent import IdempotentDelivery
from spark_tools.writing.plan import WritePlan
from spark_tools.writing.rejects import Rejects
from spark_tools.writing.rows import TaskRows
from spark_tools.writing.stored import READ_MESSAGES, StoredTally, check_doubled, end_of, numbered

if TYPE_CHECKING:
    import pyarrow as pa

PRODUCERS_MAX = LINES_MAX // 2
"""Pairs of a task and a queue that one write may have at one broker, which remembers twice as many of all producers."""
APPEARS_S_MAX = 30.0
"""A message that the broker has acknowledged is in its queue after this time at the latest."""
_NO_END = float("inf")


@dataclass(frozen=True, slots=True)
class TaskSent:
    """What became of a task's rows. ``doubtful``: how many requests had no answer; ``weak``: stored, but not flushed or
    replicated in time; ``counts``: of a write with a plan, the rows in each of its queues."""

    stored: int
    weak: int
    doubtful: int
    rejects: Rejects
    counts: Sequence[int] = ()


def write_at_least_once(
    options: WriteOptions,
    cluster: LiveCluster,
    task: int,
    batches: Iterator[pa.RecordBatch],
    brokers: frozenset[str] = frozenset(),
) -> TaskSent:
    """Returns when every message is acknowledged or rejected. ``brokers``: as of ``TaskRows``. DeliveryError, or
    NotFoundError for a topic of the options that is gone or cannot be written any more."""
    rows = TaskRows(options, cluster, task, brokers=brokers)
    if options.topic is not None:
        rows.queues(options.topic)
    target = _PlainTarget(options, cluster, rows)
    limits = Limits(options.batch_size, options.in_flight_max)
    try:
        delivery = TaskDelivery(target, _OwnPermits(options), time.monotonic, time.sleep, limits)
        done = delivery.run(target.rows.messages(batches))
    finally:
        target.close()
    return TaskSent(len(done.stored), done.weak_count, done.doubtful_count, target.rows.rejects)


def write_once(
    options: WriteOptions,
    plan: WritePlan,
    producer: str,
    cluster: LiveCluster,
    task: int,
    batches: Iterator[pa.RecordBatch],
    *,
    is_again: bool = False,
) -> TaskSent:
    """As ``write_at_least_once``, for all attempts of a task together. ``producer`` is the same for all tasks of the
    plan; ``is_again``: this driver has started the task before. DeliveryError; OtherRowsError if the attempts have
    different rows."""
    queues, epoch = plan.message_queues, plan.batch_id or 0
    of_broker = max(sum(queue.broker_name == each.broker_name for queue in queues) for each in queues)
    if (task + 1) * of_broker > PRODUCERS_MAX:
        raise UsageError(
            f"more than {PRODUCERS_MAX // of_broker} tasks write to {counted(of_broker, 'queue')} of a broker, which "
            "may forget their numbers",
            hint="coalesce() the frame, or write at-least-once",
        )
    rows = TaskRows(options, cluster, task, queues, plan.body_max_bytes)
    # Every attempt begins at the same queue. Tasks and batches begin at others: they may have a row or two each.
    turn = int(plan.write_id, 16) if plan.batch_id is None else epoch
    target = _NumberedTarget(options, cluster, plan, f"{producer}-{task}:{epoch}:".encode())
    try:
        delivery = IdempotentDelivery(
            target, queues, f"{producer}-{task}", epoch, time.monotonic, time.sleep, options.batch_size,
            plan.body_max_bytes, turn + task,
        )  # fmt: skip
        delivery.run(rows.messages(batches), is_again=is_again)
    finally:
        target.close()
    return TaskSent(delivery.stored_count, delivery.weak_count, delivery.doubtful_count, rows.rejects, delivery.counts)


class _PlainTarget:
    """The target of an at-least-once delivery, which never looks at it: messages in doubt are sent again."""

    def __init__(self, options: WriteOptions, cluster: LiveCluster, rows: TaskRows):
        self.rows = rows
        self._options = options
        self._choosers: dict[str, ChooseQueue] = {}
        self._sender = _TaskSender(options, cluster, self._choose)
        self.put = self._sender.put
        self.close = self._sender.close

    def _choose(self, batch: Batch) -> MessageQueue:
        topic = batch.messages[0].topic
        if topic not in self._choosers:
            self._choosers[topic] = round_robin(self.rows.queues(topic))
        return self._choosers[topic](batch)

    def outcomes(self) -> list[BatchOutcome]:
        found = self._sender.outcomes()
        if self._options.topic is not None:
            unless_refused(found)
        for each in found:
            if each.is_of_topic or (each.answer is Answer.ILLEGAL and len(each.batch.messages) == 1):
                for message in each.batch.messages:
                    self.rows.reject(message, each.code, each.remark)
        return found

    def settle(self) -> None:
        """Waits for nothing."""

    def look(self) -> set[str]:
        return set()


class _NumberedTarget:
    def __init__(self, options: WriteOptions, cluster: LiveCluster, plan: WritePlan, mark: bytes):
        self._cluster = cluster
        self._sender = _TaskSender(options, cluster, _no_target)
        self._permits = _OwnPermits(options) if options.rate_max or options.byte_rate_max else None
        self._stored = {
            queue: _StoredRows(cluster, queue, fence, mark)
            for queue, fence in zip(plan.message_queues, plan.queues, strict=True)
        }
        self.stored_rows = self._stored.__getitem__
        self.close = self._sender.close

    def put(self, batch: Batch) -> None:
        if self._permits is not None:
            for message in batch.messages:
                self._permits.wait_for_one(message.size_bytes)
        self._sender.put(batch, _NO_END, lambda: _NO_END)

    def outcomes(self) -> list[BatchOutcome]:
        return unless_refused(self._sender.outcomes())


class _StoredRows:
    """This task's rows in one queue, read from the plan's fence on. ``mark`` begins their numbers."""

    def __init__(self, cluster: LiveCluster, queue: MessageQueue, fence: Fence, mark: bytes):
        self._cluster = cluster
        self._queue = queue
        self._mark = mark
        self._at = fence.queue_offset
        self._rows: dict[int, StoredMessage] = {}
        self._tally = StoredTally()

    def row(self, sequence: int) -> StoredMessage:
        deadline = time.monotonic() + APPEARS_S_MAX
        while sequence not in self._rows:
            if self._read_on():
                continue
            if time.monotonic() > deadline:
                raise DeliveryError(f"{queue_text(self._queue)} does not show row {sequence}, which it is said to have")
            time.sleep(0.05)
        for passed in [number for number in self._rows if number <= sequence - REPEATS_KNOWN]:
            del self._rows[passed]  # they were sent by this attempt
        return self._rows[sequence]

    def count(self) -> int:
        while self._read_on():
            self._rows.clear()
        check_doubled(self._tally.doubled, self._queue.topic)
        return self._tally.count

    def _read_on(self) -> bool:
        """Whether there was more to read."""
        upto = min(end_of(self._cluster, self._queue), self._at + READ_MESSAGES)
        if upto <= self._at:
            return False
        for number, message in numbered(self._cluster, OffsetRange(self._queue, self._at, upto)):
            if number.startswith(self._mark):
                sequence = int(number[len(self._mark) :])
                self._rows[sequence] = message
                self._tally.add(sequence)
        self._at = upto
        return True


# --- what every delivery needs: requests to the masters as they are now, and its share of the rate -------------------


class _TaskSender:
    """Sends batches, and learns of new masters whenever a request was not answered or not taken."""

    def __init__(self, options: WriteOptions, cluster: LiveCluster, choose: ChooseQueue):
        self._cluster = cluster
        self._topics: set[str] = set()
        self._addresses: dict[str, str] = {}
        self._sender = BatchSender(
            self._addresses, choose, options.access, producer_group=options.producer_group,
            send_timeout_s=options.send_timeout_ms / 1000,
        )  # fmt: skip

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        topic = batch.messages[0].topic
        if topic not in self._topics:
            self._topics.add(topic)
            self._learn(topic)
        return self._sender.put(batch, not_after, extend)

    def outcomes(self) -> list[BatchOutcome]:
        found = self._sender.outcomes()
        for topic in {
            each.batch.messages[0].topic for each in found if each.answer in (Answer.BUSY, Answer.IN_DOUBT)
        }:  # fmt: skip
            self._cluster.forget_route(topic)
            self._learn(topic)
        return found

    def _learn(self, topic: str) -> None:
        """While it cannot be told where the masters are, the known addresses are tried again. Where no name server
        knows the topic, any master may be asked: only brokers can say that it is gone."""
        with contextlib.suppress(RocketMQError):
            of_topic = [broker for _, broker in self._cluster.route(topic).values()]
            for broker in of_topic or self._cluster.admin.cluster_info().broker_addr_table.values():
                if broker.master_addr is not None:
                    self._addresses[broker.broker_name] = broker.master_addr

    def close(self) -> None:
        self._sender.close()


def _no_target(batch: Batch) -> MessageQueue:
    """For a sender whose messages name their queues."""
    raise AssertionError(batch)


class _OwnPermits:
    """Permits that limit one task's rate, and nothing else."""

    def __init__(self, options: WriteOptions):
        self._book = PermitBook(time.monotonic, settle_s=0.0, rate=options.rate_max, byte_rate=options.byte_rate_max)
        self._book.open_wave(0, recovering=False)
        self._book.enter(0, 0, 0)

    def enter(self) -> Entered:
        return Entered(must_look=False)

    def ask(self, count: int, size_bytes: int) -> Granted | Wait:
        answer = self._book.ask(0, 0, 0, count, size_bytes)
        assert not isinstance(answer, Denied)
        return answer if isinstance(answer, Wait) else Granted(answer.count, _NO_END)

    def extend(self) -> Granted:
        return Granted(0, _NO_END)

    def wait_for_one(self, size_bytes: int) -> None:
        """Returns when one message may be sent."""
        while isinstance(answer := self.ask(1, size_bytes), Wait):
            time.sleep(answer.seconds)
