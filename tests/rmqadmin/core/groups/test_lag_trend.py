"""What two readings of a group's offsets reveal."""

from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.groups.lag_trend import LagMotion, lost_count, stuck_queues, trend_of
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset

A, B = (MessageQueue("t", "broker-a", queue_id) for queue_id in range(2))


def reading(**by_queue: tuple[int, int]) -> GroupOffsets:
    """``a=(end, committed)``."""
    queues = {"a": A, "b": B}
    return GroupOffsets(
        {queues[name]: ConsumeOffset(broker_offset=end, consumer_offset=at) for name, (end, at) in by_queue.items()},
        0.0,
    )


def test_a_lag_that_shrinks_is_gone_at_some_time_and_one_that_grows_never() -> None:
    shrinks = trend_of(reading(a=(100, 0), b=(0, 0)), reading(a=(110, 60), b=(0, 0)), 5.0)
    assert (shrinks.motion, shrinks.consumed_tps, shrinks.arrived_tps) == (LagMotion.SHRINKING, 12.0, 2.0)
    assert shrinks.drain_ms == 5000  # 50 are left, and 10 fewer wait after each second
    grows = trend_of(reading(a=(100, 0)), reading(a=(200, 50)), 5.0)
    assert (grows.motion, grows.drain_ms) == (LagMotion.GROWING, None)
    assert trend_of(reading(a=(9, 9)), reading(a=(9, 9)), 5.0).drain_ms == 0


@given(*[st.integers(0, 1000)] * 4, st.floats(0.1, 60))
def test_what_came_and_what_was_consumed_make_the_difference(
    end: int, came: int, lag: int, consumed: int, elapsed_s: float
) -> None:
    at = max(0, end - lag)
    trend = trend_of(reading(a=(end, at)), reading(a=(end + came, min(end + came, at + consumed))), elapsed_s)
    change = (trend.arrived_tps - trend.consumed_tps) * elapsed_s
    assert round(change) == trend.lag_count - trend.lag_before_count
    assert (trend.motion is LagMotion.SHRINKING) == (trend.lag_count < trend.lag_before_count)


def test_a_queue_is_stuck_if_messages_wait_all_the_time_and_its_offset_stays() -> None:
    assert stuck_queues(reading(a=(5, 1), b=(5, 1)), reading(a=(9, 1), b=(9, 2))) == [A]
    assert stuck_queues(reading(a=(5, 5)), reading(a=(9, 5))) == [], "nothing waited at first"
    assert stuck_queues(reading(), reading(a=(9, 5))) == [], "it was not there at first"


def test_what_was_deleted_before_it_was_consumed() -> None:
    entry = ConsumeOffset(broker_offset=10, consumer_offset=2)
    assert [lost_count(entry, begin) for begin in (0, 2, 5, 10, 99)] == [0, 0, 3, 8, 8]
