from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import MessageQueue
from spark_tools.streaming.limits import TriggerLimits, apportion, batch_ends, take_bytes

counts = st.lists(st.integers(0, 5000), min_size=1, max_size=12)


def queue(number: int) -> MessageQueue:
    return MessageQueue("T", "b", number)


@given(counts, st.integers(1, 20_000), st.integers(0, 10**9))
def test_a_batch_takes_its_limit_and_of_each_queue_its_part(waiting: list[int], limit: int, turn: int) -> None:
    taken = apportion(waiting, limit, turn)
    assert sum(taken) == min(limit, sum(waiting))
    nonempty = sum(1 for count in waiting if count)
    for count, part in zip(waiting, taken, strict=True):
        assert 0 <= part <= count
        if count and limit >= nonempty:
            assert part >= 1
            share = count * min(limit, sum(waiting)) / sum(waiting)
            assert abs(part - share) <= 1 + nonempty * max(1, count / max(1, sum(waiting) - nonempty))


@given(st.integers(2, 9), st.integers(1, 8))
def test_with_fewer_messages_than_queues_all_get_their_turn(queue_count: int, limit: int) -> None:
    """Otherwise a queue late in the order would starve while the others go on growing."""
    places, seen = dict.fromkeys(map(queue, range(queue_count)), 0), Counter[MessageQueue]()
    for _ in range(queue_count):
        ends = batch_ends(
            {each: (at, at + 100) for each, at in places.items()}, TriggerLimits(offsets_max=limit), no_sizes
        )
        seen.update({each: ends[each] - at for each, at in places.items()})
        places = ends
    assert sum(seen.values()) == limit * queue_count
    assert min(seen.values()) >= 1
    assert max(seen.values()) - min(seen.values()) <= 2


def no_sizes(queue: MessageQueue, start: int, count: int) -> Sequence[int]:
    raise AssertionError("nobody asked for bytes")


@given(st.lists(st.lists(st.integers(91, 3000), max_size=30), min_size=1, max_size=6), st.integers(1, 40_000),
       st.integers(1, 7), st.integers(0, 99))  # fmt: skip
def test_a_batch_has_no_more_bytes_than_its_limit(stored: list[list[int]], limit: int, page: int, turn: int) -> None:
    def sizes(at: MessageQueue, start: int, count: int) -> Sequence[int]:
        return stored[at.queue_id][start : start + min(page, count)]

    places = {queue(number): (0, len(each)) for number, each in enumerate(stored)}
    taken = take_bytes(places, limit, sizes, turn)
    first = [sum(each[:count]) for each, count in zip(stored, taken, strict=True)]
    total = sum(map(len, stored))
    assert sum(first) <= limit or sum(taken) == 1, "one message at least, or a large one would stop the stream"
    assert (sum(taken) > 0) == (total > 0)
    if sum(taken) < total:
        left = [each[count] for each, count in zip(stored, taken, strict=True) if count < len(each)]
        assert sum(first) + max(left) > limit or sum(taken) == 1


def test_a_queue_whose_sizes_are_unknown_waits() -> None:
    places = {queue(0): (5, 10), queue(1): (7, 3)}
    assert take_bytes(places, 1000, lambda at, start, count: [100] if at == queue(1) else [], 0) == [0, 3]
