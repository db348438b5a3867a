"""Rows are stored once, whatever becomes of requests, answers, attempts and masters: against the broker's own table of
numbers, without Spark and without a clock."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.message.properties import PRODUCER_SEQ, parse
from rmqproto.message.record import StoredMessage
from rmqproto.message.special_messages import parse_sequence_untrusted
from rmqreplay.sending.delivery import Answer, Batch, BatchOutcome, DeliveryError, Outgoing
from rmqserver.store.sequences.sequence_table import LineKey, OutOfSequence, SequenceTable, StoredPlace
from spark_tools.writing.idempotent import IdempotentDelivery, OtherRowsError
from tests.support.quick import first_is_quick

QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(3)]


class Killed(Exception):
    """The attempt ends here."""


class Broker:
    """Stores numbered messages as rmqserver does. ``queues``: what each has."""

    def __init__(self) -> None:
        self.table = SequenceTable()
        self.queues: dict[MessageQueue, list[Outgoing]] = {queue: [] for queue in QUEUES}

    def take(self, batch: Batch) -> BatchOutcome:
        queue = batch.messages[0].target
        assert queue is not None
        numbers = [parse_sequence_untrusted(parse(message.properties)[PRODUCER_SEQ]) for message in batch.messages]
        key = LineKey(numbers[0].producer_id, queue.topic, queue.queue_id)
        try:
            places = self.table.find_batch(key, numbers[0], len(numbers))
        except OutOfSequence as error:
            return BatchOutcome(batch, Answer.IN_DOUBT, ResponseCode.ILLEGAL_OPERATION, str(error))
        if places:
            return BatchOutcome(batch, Answer.STORED, is_repeat=True)
        for number, message in zip(numbers, batch.messages, strict=True):
            self.table.add(key, number, [StoredPlace(0, len(self.queues[queue]))], 0)
            self.queues[queue].append(message)
        return BatchOutcome(batch, Answer.STORED)

    def bodies(self) -> Counter[bytes]:
        return Counter(message.body for queue in self.queues.values() for message in queue)

    def lose_newest(self, queue: MessageQueue, count: int) -> None:
        """As a fail-over to a slave that lags: the table is made from the shorter log."""
        del self.queues[queue][-count:]
        self.table = SequenceTable()
        for each, messages in self.queues.items():
            for at, message in enumerate(messages):
                number = parse_sequence_untrusted(parse(message.properties)[PRODUCER_SEQ])
                self.table.add(LineKey(number.producer_id, each.topic, each.queue_id), number, [StoredPlace(0, at)], 0)


class Faults(NamedTuple):
    """Chances of each request."""

    lost: float = 0.0
    unanswered: float = 0.0
    busy: float = 0.0
    killed: float = 0.0


class Wire:
    """The way to the broker. What is in ``late`` arrives there at any later time: that is all that a zombie does."""

    def __init__(self, broker: Broker, random: Random, faults: Faults, late: deque[Batch], mark: str):
        self._broker = broker
        self._random = random
        self._faults = faults
        self._late = late
        self._mark = mark
        self._answers: list[BatchOutcome] = []
        self._stored: dict[MessageQueue, Stored] = {}

    def put(self, batch: Batch) -> None:
        if self._random.random() < self._faults.killed:
            raise Killed
        while self._late and self._random.random() < 0.3:
            self._broker.take(self._late.popleft())
        chance = self._random.random()
        if chance < self._faults.lost:
            self._late.append(batch)
            self._answers.append(BatchOutcome(batch, Answer.IN_DOUBT))
        elif chance < self._faults.lost + self._faults.busy:
            self._answers.append(BatchOutcome(batch, Answer.BUSY, ResponseCode.SYSTEM_BUSY))
        else:
            outcome = self._broker.take(batch)
            is_lost = self._random.random() < self._faults.unanswered
            self._answers.append(BatchOutcome(batch, Answer.IN_DOUBT) if is_lost else outcome)

    def outcomes(self) -> list[BatchOutcome]:
        count = self._random.randint(1, len(self._answers)) if self._answers else 0
        found, self._answers = self._answers[:count], self._answers[count:]
        return found

    def stored_rows(self, queue: MessageQueue) -> Stored:
        return self._stored.setdefault(queue, Stored(self._broker.queues[queue], queue, self._mark))


class Stored:
    def __init__(self, messages: list[Outgoing], queue: MessageQueue, mark: str):
        self._messages = messages
        self._queue = queue
        self._mark = mark
        self._at = 0
        self._own: dict[int, Outgoing] = {}

    def _read_on(self) -> None:
        for message in self._messages[self._at :]:
            number = parse(message.properties)[PRODUCER_SEQ]
            if number.startswith(self._mark):
                self._own[int(number[len(self._mark) :])] = message
        self._at = len(self._messages)

    def row(self, sequence: int) -> StoredMessage:
        self._read_on()
        return record(self._own[sequence], self._queue)

    def count(self) -> int:
        self._read_on()
        return max(self._own, default=-1) + 1


def record(message: Outgoing, queue: MessageQueue) -> StoredMessage:
    added = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02"
    return StoredMessage(
        size_bytes=0, body_crc=0, queue_id=queue.queue_id, flag=message.flag, queue_offset=0, log_offset=0,
        sys_flag=message.sys_flag, born_timestamp_ms=0, born_host=b"", store_timestamp_ms=0, store_host=b"",
        reconsume_times=0, prepared_transaction_offset=0, body=message.body, topic=queue.topic,
        properties_raw=(message.properties + added).encode(),
    )  # fmt: skip


def rows(count: int, *, key: str = "k") -> list[Outgoing]:
    origin = MessageQueue("", "", 0)
    return [
        Outgoing("", origin, number, "T", b"row %d" % number, f"KEYS\x01{key}\x02UNIQ_KEY\x01{object()!r}\x02")
        for number in range(count)
    ]


def deliver(
    broker: Broker,
    messages: Iterable[Outgoing],
    random: Random | None = None,
    faults: Faults = Faults(),  # noqa: B008
    late: deque[Batch] | None = None,
    *,
    epoch: int = 7,
    batch_messages: int = 8,
) -> IdempotentDelivery:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    wire = Wire(broker, random or Random(1), faults, late if late is not None else deque(), f"p-0:{epoch}:")
    delivery = IdempotentDelivery(wire, QUEUES, "p-0", epoch, lambda: now_s, sleep, batch_messages)
    delivery.run(messages)
    return delivery


@pytest.mark.parametrize("seed", first_is_quick(range(60), 15))
def test_each_row_is_stored_once_in_its_order(seed: int) -> None:
    """Attempts are killed, requests and answers lost, and requests of dead attempts arrive late."""
    random, broker, late = Random(seed), Broker(), deque[Batch]()
    count = random.choice([0, 1, 50, 1200])
    for _ in range(20):
        faults = Faults(random.random() * 0.1, random.random() * 0.1, random.random() * 0.05, 0.002)
        try:
            done = deliver(broker, rows(count), random, faults, late, batch_messages=random.choice([1, 7, 8, 64]))
        except Killed:
            continue
        break
    else:
        done = deliver(broker, rows(count), random, Faults(), late)
    assert done.stored_count == count
    while late:  # a zombie, which wakes up when all is done
        broker.take(late.popleft())
    assert broker.bodies() == Counter(message.body for message in rows(count))
    for at, queue in enumerate(QUEUES):
        assert [message.body for message in broker.queues[queue]] == [b"row %d" % n for n in range(at, count, 3)]


def test_without_numbers_the_same_faults_store_rows_twice() -> None:
    """The faults of the test above are some."""
    random, broker, late = Random(3), Broker(), deque[Batch]()
    broker.table.find_batch = lambda *_: []  # type: ignore[method-assign]
    deliver(broker, rows(1200), random, Faults(0.1, 0.1, 0.05), late)
    assert max(broker.bodies().values()) > 1


def test_rows_stored_so_long_ago_that_their_places_are_forgotten_count_as_stored() -> None:
    broker = Broker()
    deliver(broker, rows(3000))
    again = deliver(broker, rows(3000))
    assert (again.stored_count, again.repeated_count) == (3000, 3000)
    assert sum(broker.bodies().values()) == 3000


@pytest.mark.parametrize(
    ("again", "problem"),
    [
        (rows(90)[::-1], "row 89 of this task is not what an earlier attempt stored"),
        (rows(90, key="other"), "row 0 of this task is not what an earlier attempt stored"),
        (rows(60), "an earlier attempt of this task stored 30 rows in queue 0 of T on broker-a, and this one has 20"),
        (rows(1), "an earlier attempt of this task stored 30 rows in queue 0"),
    ],
)
def test_an_attempt_with_other_rows_is_refused_and_nothing_is_missing_without_a_word(
    again: list[Outgoing], problem: str
) -> None:
    broker = Broker()
    deliver(broker, rows(90))
    with pytest.raises(OtherRowsError, match=problem):
        deliver(broker, again)
    assert sum(broker.bodies().values()) == 90


def test_a_task_of_a_batch_that_has_ended_stores_nothing_more() -> None:
    broker, late = Broker(), deque[Batch]()
    with pytest.raises(Killed):
        deliver(broker, rows(90), Random(5), Faults(killed=0.03), late)
    stored = sum(broker.bodies().values())
    assert 0 < stored < 90
    deliver(broker, rows(90), epoch=8)
    with pytest.raises(DeliveryError, match="epoch 7 has ended"):
        deliver(broker, rows(90))
    assert sum(broker.bodies().values()) == stored + 90


def test_a_master_that_has_lost_rows_ends_the_attempt_and_the_next_one_sends_them() -> None:
    broker = Broker()

    def rows_then_a_loss() -> Iterable[Outgoing]:
        messages = rows(1800)
        yield from messages[:1200]
        broker.lose_newest(QUEUES[1], 150)
        yield from messages[1200:]

    with pytest.raises(DeliveryError, match="comes before message"):
        deliver(broker, rows_then_a_loss())
    deliver(broker, rows(1800))
    assert broker.bodies() == Counter(message.body for message in rows(1800))


def test_brokers_that_take_nothing_end_it() -> None:
    with pytest.raises(DeliveryError, match="no broker has taken p-0:7:0 to T for 120 s: there was no answer"):
        deliver(Broker(), rows(10), faults=Faults(busy=1.0))


def test_a_topic_that_takes_no_batches_gets_the_rows_one_by_one() -> None:
    broker = Broker()
    take = broker.take

    def refuses_batches(batch: Batch) -> BatchOutcome:
        if len(batch.messages) > 1:
            return BatchOutcome(batch, Answer.ILLEGAL, ResponseCode.MESSAGE_ILLEGAL, "no batches here")
        return take(batch)

    broker.take = refuses_batches  # type: ignore[method-assign]
    done = deliver(broker, rows(100))
    assert (done.stored_count, done.repeated_count) == (100, 0)
    assert broker.bodies() == Counter(message.body for message in rows(100))
