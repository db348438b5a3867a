"""Queues read side by side: messages come in order of time and of their queue, none is lost, and all are counted."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.messages.message_source import QueueReader, Sieve, SiftExtent, in_time_order, sifted
from rmqadmin.core.messages.queue_reading import QueuePlace
from rmqclient.pull import PullResult, PullStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.message.record import StoredMessage
from tests.rmqclient.fake_broker import record

BATCH = 3


@dataclass
class Queues:
    """One queue for each list of store times. A pull returns at most three messages. If ``deleted`` has an offset for a
    queue, the messages before it are gone when the queue is pulled."""

    times: list[list[int]]
    deleted: dict[int, int] = field(default_factory=dict)
    pulls: int = 0

    def places(self) -> list[QueuePlace]:
        return [
            QueuePlace(MessageQueue("T", f"b{number % 2}", number), "addr", 0, len(times))
            for number, times in enumerate(self.times)
        ]

    def message(self, queue_id: int, offset: int) -> StoredMessage:
        stored = record(offset, f"{queue_id}-{offset}".encode(), "even" if offset % 2 == 0 else "odd")
        return msgspec.structs.replace(stored, queue_id=queue_id, store_timestamp_ms=self.times[queue_id][offset])

    def pull_message(self, addr: str, queue: MessageQueue, offset: int, *, max_count: int, **_: Any) -> PullResult:
        self.pulls += 1
        first, end = self.deleted.get(queue.queue_id, 0), len(self.times[queue.queue_id])
        if offset < first:
            return PullResult(PullStatus.OFFSET_ILLEGAL, [], first, first, end, 0)
        found = [self.message(queue.queue_id, at) for at in range(offset, min(offset + min(max_count, BATCH), end))]
        return PullResult(PullStatus.FOUND, found, offset + len(found), first, end, 0)


def reader(queues: Any, sieve: Sieve) -> QueueReader:
    return QueueReader(queues, "*", sieve, lambda text: None)


@given(st.lists(st.lists(st.integers(0, 20), max_size=12), min_size=1, max_size=5))
def test_all_of_all_queues_in_order_of_time(times: list[list[int]]) -> None:
    queues, sieve = Queues([sorted(each) for each in times]), Sieve()
    found = [message for batch in in_time_order(reader(queues, sieve), queues.places()) for message in batch]
    moments = [message.stored.store_timestamp_ms for message in found]
    assert moments == sorted(moment for each in times for moment in each)
    assert sieve.scanned_count == sieve.matched_count == len(found)


@given(st.lists(st.lists(st.integers(0, 20), max_size=12), min_size=1, max_size=4))
def test_a_queue_keeps_its_own_order_though_the_clock_was_set_back(times: list[list[int]]) -> None:
    queues = Queues(times)
    found = [message for batch in in_time_order(reader(queues, Sieve()), queues.places()) for message in batch]
    for number, each in enumerate(times):
        assert [one.stored.queue_offset for one in found if one.stored.queue_id == number] == list(range(len(each)))


@given(st.lists(st.lists(st.integers(0, 20), max_size=12), min_size=1, max_size=4), st.integers(1, 8))
def test_a_limit_ends_it_and_no_more_is_counted_than_was_looked_at(times: list[list[int]], limit: int) -> None:
    def takes(stored: StoredMessage, _: object) -> bool:
        return stored.queue_offset % 2 == 1

    queues = Queues([sorted(each) for each in times])
    everything = [one for batch in in_time_order(reader(queues, Sieve()), queues.places()) for one in batch]
    sieve = Sieve(takes)
    batches = list(sifted(reader(queues, sieve), queues.places(), SiftExtent(limit=limit)))
    found = [one for batch in batches for one in batch]
    wanted = [one for one in everything if one.stored.queue_offset % 2 == 1]
    assert found == wanted[:limit]
    assert sieve.matched_count == len(found)
    if len(wanted) >= limit:
        assert sieve.scanned_count == everything.index(found[-1]) + 1
        assert sieve.stopped == f"--limit {limit} was reached"
    else:
        assert (sieve.scanned_count, sieve.stopped) == (len(everything), "the end was reached")


def test_a_batch_is_given_before_the_next_answer_is_waited_for() -> None:
    queues = Queues([[1, 2, 3, 7], [4, 5, 6, 8]])
    batches = in_time_order(reader(queues, Sieve()), queues.places())
    assert [one.stored.store_timestamp_ms for one in next(batches)] == [1, 2, 3]
    assert queues.pulls == 2  # one for each queue


def test_what_retention_deletes_meanwhile_is_left_out_and_the_rest_is_read() -> None:
    """A pull at a deleted offset used to end the reading of the queue."""
    queues, sieve = Queues([list(range(10)), [3]], deleted={0: 7}), Sieve()
    found = [message for batch in in_time_order(reader(queues, sieve), queues.places()) for message in batch]
    assert [one.stored.store_timestamp_ms for one in found] == [3, 7, 8, 9]
    assert sieve.scanned_count == 4


def test_the_newest_are_looked_for_until_there_are_enough_and_counted() -> None:
    queues = Queues([list(range(0, 40, 2)), list(range(1, 41, 2))])
    sieve = Sieve(lambda stored, _: stored.store_timestamp_ms % 5 == 0)
    (found,) = sifted(reader(queues, sieve), queues.places(), SiftExtent(tail=3))
    assert [one.stored.store_timestamp_ms for one in found] == [25, 30, 35]
    assert (sieve.matched_count, sieve.stopped) == (3, "--tail 3 was reached")
