"""A stream over queues that grow, lose their oldest messages, come in and go, without Spark and without brokers."""

import json
from collections.abc import Callable, Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqreplay.source.queue_ranges import DataLossError
from spark_tools.streaming.limits import TriggerLimits
from spark_tools.streaming.offsets import Marks, Places, StreamOffset, is_younger, parse_offset, ranges_between
from spark_tools.streaming.planner import MadeAnewError, StreamPlanner
from spark_tools.streaming.survey import Seen

A, B = MessageQueue("T", "a", 0), MessageQueue("T", "b", 0)


class Brokers:
    """Queues with their first offsets and ends; every message has 100 bytes. ``away`` are not seen."""

    def __init__(self, bounds: dict[MessageQueue, tuple[int, int]], start: str = "earliest"):
        self.bounds = bounds
        self.start = start
        self.away: set[MessageQueue] = set()
        self.unwanted: set[MessageQueue] = set()
        self.made_ms = 0

    def starting(self) -> dict[MessageQueue, int]:
        return {queue: ends[self.start == "latest"] for queue, ends in self.bounds.items()}

    def look(self, known: Places | None, marks: Marks | None = None) -> Seen:
        seen = {queue: ends for queue, ends in self.bounds.items() if queue not in self.away}
        return Seen(seen, [queue for queue in known or () if queue not in self.bounds])

    def is_wanted(self, queue: MessageQueue) -> bool:
        return queue not in self.unwanted

    def first_stored_ms(self, queue: MessageQueue) -> int | None:
        """Messages are stored one each millisecond."""
        return self.made_ms + self.bounds[queue][0]

    def made_anew(self, queues: Iterable[MessageQueue], marks: Marks) -> list[MessageQueue]:
        return [each for each in queues if is_younger(marks[each], self.bounds[each][0], self.first_stored_ms(each))]

    def sizes(self, queue: MessageQueue, start: int, count: int) -> list[int]:
        return [100] * min(count, 7)


def planner(brokers: Brokers, *, fail: bool = True, now_s: Callable[[], float] = lambda: 0.0, **limits: int):
    return StreamPlanner(brokers, TriggerLimits(**limits), fail, now_s)


def test_a_queue_that_comes_in_is_read_from_its_first_message() -> None:
    brokers = Brokers({A: (0, 10)}, start="latest")
    plan = planner(brokers)
    first = plan.next(plan.initial(), limited=True)
    assert plan.next(first, limited=True) is first
    brokers.bounds |= {B: (0, 0)}
    assert plan.next(first, limited=True) is first, "no batch for an empty queue"
    brokers.bounds[B] = 3, 8
    second = plan.next(first, limited=True)
    assert [(each.queue, each.start, each.end) for each in ranges_between(first, second)] == [(B, 3, 8)]
    assert plan.latest == {A: 10, B: 8}


def test_a_first_batch_that_crashed_begins_again_where_it_began() -> None:
    brokers = Brokers({A: (0, 10)}, start="latest")
    before = planner(brokers)
    begin = before.initial()
    brokers.bounds[A] = 0, 15
    logged = parse_offset(json.loads(json.dumps(before.next(begin, limited=True).to_json())))
    brokers.bounds[A] = 0, 20
    again = planner(brokers).initial()
    assert [(each.start, each.end) for each in ranges_between(again, logged)] == [(10, 15)]


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({A: (12, 20)}, "T/a/0: offset 10 is gone, the queue now holds 12 to 20"),
        ({}, "T/a/0 is gone, which was read to 10"),
        ({A: (0, 4)}, "was read to 10 and now ends at 4"),
    ],
)
def test_what_is_lost_is_an_error_or_is_passed_over(bounds, words) -> None:
    brokers, start = Brokers(bounds), StreamOffset({A: 10})
    with pytest.raises(DataLossError, match=words):
        planner(brokers).next(start, limited=True)
    end = planner(brokers, fail=False).next(start, limited=True)
    assert end.queues == {queue: last for queue, (_, last) in bounds.items()}
    read = [(each.start, each.end) for each in ranges_between(start, end)]
    assert read == ([(10, 20)] if bounds.get(A) == (12, 20) else [])


def test_a_queue_that_was_made_anew_is_told_from_one_that_lost_its_oldest_messages() -> None:
    brokers = Brokers({A: (3, 10), B: (0, 5)})
    before = planner(brokers)
    logged = parse_offset(json.loads(json.dumps(before.next(before.initial(), limited=True).to_json())))
    for bounds in [(3, 12), (7, 12), (0, 12)]:  # the last one is of a replica that deletes later
        brokers.bounds[A] = bounds
        went_on = planner(brokers).next(logged, limited=True)
        assert [(each.start, each.end) for each in ranges_between(logged, went_on)] == [(10, 12)]
    brokers.bounds[A], brokers.made_ms = (0, 12), 1000
    with pytest.raises(MadeAnewError, match="T/a/0 was made anew after it was read to 10"):
        planner(brokers).next(logged, limited=True)
    plan = planner(brokers, fail=False, offsets_max=10)
    anew = plan.next(logged, limited=True)
    after = plan.next(anew, limited=True)
    read = [(each.queue, each.start, each.end) for each in ranges_between(logged, anew) + ranges_between(anew, after)]
    assert {queue: sum(end - start for each, start, end in read if each == queue) for queue in (A, B)} == {A: 12, B: 5}


def test_a_batch_that_is_repeated_reads_nothing_of_a_queue_that_was_made_anew_since() -> None:
    """Spark repeats it without asking where it ends: other messages would be taken for those that were planned, and
    read again as those of the new queue."""
    brokers = Brokers({A: (0, 10), B: (0, 5)})
    before = planner(brokers)
    start = before.initial()
    logged = parse_offset(json.loads(json.dumps(before.next(start, limited=True).to_json())))
    assert [each.count for each in planner(brokers).ranges(start, logged)] == [10, 5]
    brokers.bounds[A], brokers.made_ms = (0, 12), 1000
    brokers.bounds[B] = (2, 5)
    with pytest.raises(MadeAnewError, match="T/a/0 was made anew after its messages up to 10 were planned"):
        planner(brokers).ranges(start, logged)
    plan = planner(brokers, fail=False)
    assert [each.queue for each in plan.ranges(start, logged)] == [B]
    anew = plan.next(logged, limited=True)
    assert [(each.queue, each.start, each.end) for each in plan.ranges(logged, anew)] == [(A, 0, 12)]


def test_a_broker_that_is_away_keeps_its_place() -> None:
    brokers, start = Brokers({A: (0, 20), B: (0, 20)}), StreamOffset({A: 10, B: 10})
    brokers.away = {B}
    plan = planner(brokers, fail=False)
    end = plan.next(start, limited=True)
    assert end.queues == {A: 20, B: 10}
    brokers.away.clear()
    assert plan.next(end, limited=True).queues == {A: 20, B: 20}


def test_a_queue_that_the_options_do_not_name_any_more_is_told() -> None:
    brokers = Brokers({A: (0, 10)})
    brokers.unwanted = {B}
    with pytest.raises(UsageError, match="the checkpoint has T/b/0"):
        planner(brokers).next(StreamOffset({A: 1, B: 1}), limited=True)
    assert planner(brokers, fail=False).next(StreamOffset({A: 1, B: 1}), limited=True).queues == {A: 10}


def test_a_batch_waits_for_enough_messages_but_not_for_ever() -> None:
    brokers, clock = Brokers({A: (0, 5)}), [0.0]
    plan = planner(brokers, now_s=lambda: clock[0], offsets_min=10, delay_ms=60_000)
    begun = plan.next(plan.initial(), limited=True)
    assert begun.queues == {A: 0}
    assert plan.next(begun, limited=True) is begun
    assert plan.next(begun, limited=False).queues == {A: 5}, "Trigger.Once takes all"
    brokers.bounds[A] = 0, 12
    enough = plan.next(begun, limited=True)
    assert enough.queues == {A: 12}
    brokers.bounds[A] = 0, 13
    clock[0] = 59.0
    assert plan.next(enough, limited=True) is enough
    clock[0] = 60.0
    assert plan.next(enough, limited=True).queues == {A: 13}


def test_available_now_ends_where_the_queues_ended() -> None:
    brokers = Brokers({A: (0, 10)})
    plan = planner(brokers, offsets_max=4, offsets_min=50, delay_ms=60_000)
    at = plan.initial()
    plan.stop_at_present()
    brokers.bounds |= {A: (0, 100), B: (0, 100)}
    steps = []
    while (end := plan.next(at, limited=True)) is not at:
        steps.append(end.queues)
        at = end
    assert steps == [{A: 4}, {A: 8}, {A: 10}]


class EachMessageOnce(RuleBasedStateMachine):
    """Whatever happens, and however often the driver starts anew with what it logged: every message that was not
    deleted before it was planned is read, and none twice."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = Brokers({A: (0, 3)})
        self.read: dict[MessageQueue, set[int]] = {}
        self.plan = planner(self.brokers, fail=False)
        self.committed: StreamOffset | None = None

    @rule(queue_id=st.integers(0, 3), count=st.integers(1, 9))
    def store(self, queue_id: int, count: int) -> None:
        queue = MessageQueue("T", "ab"[queue_id % 2], queue_id)
        first, last = self.brokers.bounds.get(queue, (0, 0))
        self.brokers.bounds[queue] = first, last + count

    @rule(queue_id=st.integers(0, 3), data=st.data())
    def delete_oldest(self, queue_id: int, data: st.DataObject) -> None:
        queue = MessageQueue("T", "ab"[queue_id % 2], queue_id)
        if queue in self.brokers.bounds:
            first, last = self.brokers.bounds[queue]
            self.brokers.bounds[queue] = data.draw(st.integers(first, last)), last

    @rule(offsets_max=st.sampled_from([0, 1, 2, 5]), bytes_max=st.sampled_from([0, 50, 250, 1000]))
    def restart_with_other_limits(self, offsets_max: int, bytes_max: int) -> None:
        self.plan = planner(self.brokers, fail=False, offsets_max=offsets_max, bytes_max=bytes_max)

    @rule(away=st.booleans())
    def broker_b_goes_or_comes(self, away: bool) -> None:
        self.brokers.away = {queue for queue in self.brokers.bounds if queue.broker_name == "b"} if away else set()

    @rule(crashes=st.booleans())
    def batch(self, crashes: bool) -> None:
        start = self.committed or self.plan.initial()
        end = self.plan.next(start, limited=True)
        if end is start:
            return
        logged = parse_offset(json.loads(json.dumps(end.to_json())))
        if crashes:
            self.plan = planner(self.brokers, fail=False)
            start = self.committed or self.plan.initial()
        for each in ranges_between(start, logged):
            seen = self.read.setdefault(each.queue, set())
            offsets = set(range(each.start, each.end))
            assert not seen & offsets
            seen |= offsets
        self.committed = logged

    @precondition(lambda self: self.committed is not None)
    @invariant()
    def nothing_is_left_out(self) -> None:
        for queue, offsets in self.read.items():
            assert offsets == set(range(min(offsets), self.committed.queues[queue]))


EachMessageOnce.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestEachMessageOnce = EachMessageOnce.TestCase
