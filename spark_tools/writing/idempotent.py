"""Delivers the rows of one task so that each is stored once, however often tasks, drivers and requests are repeated.

Rows are numbered by queue, in the order of the task, so that every attempt gives a row the same number; the broker
stores a number once (``rmqproto.message.special_messages``). A batch of a stream is an epoch, which ends when the
next one begins. Within a queue a message is only sent again when nothing else of it is under way.

A number is only as good as the rows are the same. So wherever the broker says that it has a number already, the row
that it stored is read and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RocketMQError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqproto.message.special_messages import REPEATS_KNOWN, STORED_SOMEWHERE, ProducerSequence
from rmqproto.wording import counted
from rmqreplay.sending.delivery import (
    BATCH_BYTES_MAX,
    BUSY_BACKOFF_S_MAX,
    BUSY_BACKOFF_S_MIN,
    Answer,
    Batch,
    BatchOutcome,
    DeliveryError,
    Outgoing,
    batches,
)
from rmqreplay.sending.sender import plain_body

OF_QUEUE_MAX = REPEATS_KNOWN // 2
"""Messages of one queue under way: the broker must still know the place of each when it comes again."""
UNDER_WAY_MAX = 2048
BATCH_MESSAGES_MAX = OF_QUEUE_MAX // 2
"""So that one batch of a queue is under way while the next is made."""
NO_PROGRESS_S_MAX = 120.0
_CHANGED = frozenset({
    props.UNIQUE_KEY, props.PRODUCER_SEQ, props.MSG_REGION, props.TRACE_ON, props.CLUSTER, props.POP_CK,
    props.MULTI_DISPATCH,
})  # fmt: skip
"""Properties that this writer or the broker adds, or takes away."""

SAME_INPUT = "delivery=idempotent needs input that is the same each time, in the same order and partitions"


class OtherRowsError(RocketMQError):
    """A repeated task has other rows than the attempt that stored some."""


class StoredRows(Protocol):
    """What the broker has of this task's rows in one queue."""

    def row(self, sequence: int) -> StoredMessage: ...

    def count(self) -> int:
        """One more than the highest number. DeliveryError if a row is there twice."""


class NumberedTarget(Protocol):
    def put(self, batch: Batch) -> None: ...

    def outcomes(self) -> list[BatchOutcome]: ...

    def stored_rows(self, queue: MessageQueue) -> StoredRows:
        """Always the same for a queue."""


@dataclass(slots=True)
class _Line:
    """The messages of one queue. ``open``: those not known to be stored, by number; ``unsent``: the newest of them, for
    the next batch."""

    count: int = 0
    open: dict[int, Outgoing] = field(default_factory=dict)
    unsent: list[Outgoing] = field(default_factory=list)
    is_broken: bool = False
    """One of them was not stored, so that those behind it cannot be."""
    alone_end: int = 0
    """Messages below this number are sent again one by one, because a batch of them was refused."""

    @property
    def span(self) -> int:
        return self.count - next(iter(self.open), self.count)


class IdempotentDelivery:
    """One attempt of one task. ``clock`` is the monotonic clock, and ``sleep`` waits on it."""

    def __init__(
        self,
        target: NumberedTarget,
        queues: list[MessageQueue],
        producer_id: str,
        epoch: int,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        batch_messages: int = BATCH_MESSAGES_MAX,
        batch_bytes: int = BATCH_BYTES_MAX,
        first_queue: int = 0,
    ):
        """``first_queue``: where the first row goes, as a number that may be larger than there are queues."""
        self._target = target
        self._batch_messages = min(batch_messages, BATCH_MESSAGES_MAX)
        self._batch_bytes = min(batch_bytes, BATCH_BYTES_MAX)
        self._prefix = ProducerSequence(producer_id, epoch, 0).render()[:-1]
        self._clock = clock
        self._sleep = sleep
        self._lines = {queue: _Line() for queue in queues}
        self._queues = queues
        self._first_queue = first_queue
        self._under_way = 0
        self._pause_s = BUSY_BACKOFF_S_MIN
        self._progress_at = 0.0
        self._last_reason = ""
        self.stored_count = 0
        self.weak_count = 0
        self.doubtful_count = 0
        self.repeated_count = 0

    @property
    def counts(self) -> list[int]:
        """How many messages each queue has got, in their order."""
        return [self._lines[queue].count for queue in self._queues]

    def run(self, messages: Iterable[Outgoing], *, is_again: bool = False) -> None:
        """Returns when every message is stored once. A message without a queue of its own gets one by its number in the
        task. DeliveryError if the brokers do not take them, and OtherRowsError if an earlier attempt had other rows.
        ``is_again``: there was an earlier attempt, although perhaps none of its rows comes again."""
        self._progress_at = self._clock()
        for message in messages:
            queue = message.target or self._queues[(self._first_queue + message.queue_offset) % len(self._queues)]
            line = self._lines[queue]
            while line.is_broken or line.span >= OF_QUEUE_MAX or self._under_way >= UNDER_WAY_MAX:
                self._collect()
            line.open[line.count] = numbered = self._numbered(message, queue, line.count)
            line.unsent.append(numbered)
            line.count += 1
            if len(line.unsent) == self._batch_messages:
                self._send_unsent(line)
        for line in self._lines.values():
            while line.is_broken:
                self._collect()
            self._send_unsent(line)
        while any(line.open for line in self._lines.values()):
            self._collect()
        if is_again or self.repeated_count:
            self._check_ends()

    def _numbered(self, message: Outgoing, queue: MessageQueue, sequence: int) -> Outgoing:
        number = f"{self._prefix}{sequence}"
        text = f"{message.properties}{props.PRODUCER_SEQ}\x01{number}\x02"
        return Outgoing(
            number, message.queue, message.queue_offset, message.topic, message.body, text, message.flag,
            message.sys_flag, queue, message.mark, message.alone,
        )  # fmt: skip

    def _send_unsent(self, line: _Line) -> None:
        messages, line.unsent = line.unsent, []
        for batch in batches(messages, self._batch_messages, self._batch_bytes):
            self._send(batch)

    def _send(self, batch: Batch) -> None:
        self._under_way += len(batch.messages)
        self._target.put(batch)

    def _collect(self) -> None:
        self._take_answers()
        if not self._under_way:
            self._send_again()

    def _take_answers(self) -> None:
        for outcome in self._target.outcomes():
            self._under_way -= len(outcome.batch.messages)
            self._take_in(outcome)

    def _send_again(self) -> None:
        broken = [line for line in self._lines.values() if line.is_broken]
        if not broken:
            return
        if self._clock() - self._progress_at > NO_PROGRESS_S_MAX:
            (first, *_) = broken[0].open.values()
            raise DeliveryError(
                f"no broker has taken {first.replay_id} to {first.topic} for {NO_PROGRESS_S_MAX:.0f} s: "
                f"{self._last_reason}"
            )
        self._sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, BUSY_BACKOFF_S_MAX)
        for line in broken:
            line.is_broken = False
            sent = list(line.open.values())[: len(line.open) - len(line.unsent)]
            alone = [message for message in sent if _sequence(message) < line.alone_end]
            for batch in chain(
                batches(alone, 1), batches(sent[len(alone) :], self._batch_messages, self._batch_bytes)
            ):  # fmt: skip
                while self._under_way >= UNDER_WAY_MAX:
                    self._take_answers()
                if line.is_broken:
                    break
                self._send(batch)

    def _take_in(self, outcome: BatchOutcome) -> None:
        messages = outcome.batch.messages
        first = messages[0]
        assert first.target is not None
        line = self._lines[first.target]
        is_refused = outcome.code == ResponseCode.ILLEGAL_OPERATION
        is_known = outcome.is_repeat or (is_refused and STORED_SOMEWHERE in outcome.remark)
        if is_known or outcome.answer in (Answer.STORED, Answer.STORED_WEAKLY):
            for message in messages:
                if is_known:
                    self.repeated_count += 1
                    self._compare(message, _sequence(message))
                del line.open[_sequence(message)]
            self.stored_count += len(messages)
            self.weak_count += len(messages) if outcome.answer is Answer.STORED_WEAKLY else 0
            self._progress_at, self._pause_s = self._clock(), BUSY_BACKOFF_S_MIN
        elif len(messages) > 1 and (is_refused or outcome.answer is Answer.ILLEGAL):
            # The topic takes no batches, or some of these are stored and some are not. Alone, each gets its own answer.
            line.alone_end = max(line.alone_end, _sequence(messages[-1]) + 1)
            line.is_broken = True
        elif outcome.answer is Answer.ILLEGAL:
            row = f"row {first.queue_offset} of the task"
            raise DeliveryError(f"the broker refuses {row}, and no number may be left out: {outcome.remark}")
        elif is_refused and _sequence(first) == next(iter(line.open)):
            # All before it are stored: its epoch has ended, or the broker has lost or forgotten some.
            raise DeliveryError(outcome.remark)
        else:
            self.doubtful_count += len(messages) if outcome.answer is Answer.IN_DOUBT else 0
            line.is_broken, self._last_reason = True, outcome.reason

    def _compare(self, message: Outgoing, sequence: int) -> None:
        assert message.target is not None
        stored = self._target.stored_rows(message.target).row(sequence)
        if not _is_same(stored, message):
            raise OtherRowsError(
                f"row {message.queue_offset} of this task is not what an earlier attempt stored in its place (queue "
                f"{stored.queue_id} of {stored.topic}, offset {stored.queue_offset}): {SAME_INPUT}"
            )

    def _check_ends(self) -> None:
        """OtherRowsError if an earlier attempt had more rows."""
        for queue, line in self._lines.items():
            stored = self._target.stored_rows(queue).count()
            if stored > line.count:
                raise OtherRowsError(
                    f"an earlier attempt of this task stored {counted(stored, 'row')} in queue {queue.queue_id} of "
                    f"{queue.topic} on {queue.broker_name}, and this one has {line.count}: {SAME_INPUT}"
                )


def _sequence(message: Outgoing) -> int:
    return int(message.replay_id.rpartition(":")[2])


def _is_same(stored: StoredMessage, message: Outgoing) -> bool:
    found, own, body = stored.properties, props.parse(message.properties), plain_body(message)
    return (
        stored.flag == message.flag
        and stored.beginning_of_body(len(body) + 1) == body
        and {name: value for name, value in found.items() if name not in _CHANGED}
        == {name: value for name, value in own.items() if name not in _CHANGED}
    )
