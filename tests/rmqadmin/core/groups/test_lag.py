"""What readings of a group's offsets reveal: how a lag changes, how old it is, since when queues stand still, and how
long their waiting messages are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.groups.group_standing import QueueStanding
from rmqadmin.core.groups.lag import (
    KeptSettings,
    LagMotion,
    StandingStill,
    lost_count,
    oldest_waiting,
    stuck_queues,
    trend_of,
)
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqclient.pull import PullResult
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset
from tests.support.servers import Fresh, Server, topic_config

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


HOUR_MS = 3_600_000


def test_a_queue_stands_still_from_the_last_reading_at_which_it_was_there() -> None:
    still = StandingStill()
    assert still.look(reading(a=(9, 1), b=(9, 1)), 100.0) == {}
    assert still.look(reading(a=(9, 1), b=(9, 2)), 102.0) == {A: 2.0}
    assert still.look(reading(a=(12, 1), b=(9, 2)), 110.0) == {A: 10.0, B: 8.0}
    assert still.look(reading(a=(12, 5), b=(9, 2)), 111.0) == {B: 9.0}
    assert still.look(reading(a=(12, 5)), 112.0) == {A: 1.0}, "it had moved, and b is gone"


def test_what_is_near_to_being_deleted() -> None:
    now_ms, reserved_ms = 1000 * HOUR_MS, 100 * HOUR_MS

    def standing(oldest_ms: int | None, reserved_ms: int | None = reserved_ms) -> QueueStanding:
        return QueueStanding(queue=A, entry=ConsumeOffset(), oldest_waiting_ms=oldest_ms, reserved_ms=reserved_ms)

    assert standing(now_ms - 90 * HOUR_MS).retention_near_ms(now_ms) is None
    assert standing(now_ms - 91 * HOUR_MS).retention_near_ms(now_ms) == 9 * HOUR_MS
    assert standing(now_ms - 101 * HOUR_MS).retention_near_ms(now_ms) == -HOUR_MS
    assert standing(None).retention_near_ms(now_ms) is None
    assert standing(now_ms, None).retention_left_ms(now_ms) is None


def test_how_long_brokers_keep_messages_is_asked_once() -> None:
    asked = []

    class Client(AdminClient):
        def __init__(self) -> None:
            pass

        def broker_config(self, broker_addr: str, *, with_own_defaults: bool = False) -> dict[str, str]:
            asked.append(broker_addr)
            return {"fileReservedTime": "72"} if broker_addr == "a:1" else {}

    times, client = KeptSettings(), Client()
    found = [times.reserved_ms(client, addr) for addr in ("a:1", "b:1", "a:1", "b:1")]
    assert found == [72 * HOUR_MS, None, 72 * HOUR_MS, None]
    assert asked == ["a:1", "b:1"]


class Counting(AdminClient):
    """Counts the messages that it reads."""

    pulled: list[int]

    def pull_message(self, broker_addr: str, queue: MessageQueue, *args: int, **kwargs: int) -> PullResult:  # type: ignore[override]
        self.pulled.append(queue.queue_id)
        return super().pull_message(broker_addr, queue, *args, **kwargs)  # type: ignore[arg-type]


@pytest.fixture
def admin(server: Server) -> Counting:
    made = Counting(server.namesrv_addr, read_only=False)
    made.pulled = []
    return made


def test_the_oldest_of_all_queues_and_no_queue_read_that_cannot_hold_it(
    server: Server, admin: Counting, fresh: Fresh
) -> None:
    with admin:
        topic = fresh("LagTime")
        admin.create_topic(server.broker_addr, topic_config(topic, 3))
        queues = [MessageQueue(topic, "broker-a", queue_id) for queue_id in range(3)]
        for queue in queues:
            admin.send_message(server.broker_addr, queue, Message(topic, b"x"))
        stored = [admin.pull_message(server.broker_addr, queue, 0).messages[0].store_timestamp_ms for queue in queues]
        admin.pulled.clear()
        late_ms = stored[2] + 1
        offsets = {
            queues[0]: ConsumeOffset(broker_offset=1, consumer_offset=1, last_timestamp=1),
            queues[1]: ConsumeOffset(broker_offset=1, consumer_offset=0, last_timestamp=0),
            queues[2]: ConsumeOffset(broker_offset=1, consumer_offset=0, last_timestamp=late_ms),
        }
        addrs = {"broker-a": server.broker_addr}
        assert oldest_waiting(admin, addrs, GroupOffsets(offsets, 0.0)) == (queues[1], stored[1])
        assert admin.pulled == [1], "what was consumed of queue 2 is newer than what waits in queue 1"


def test_no_lag_has_no_age_and_an_unknown_broker_none_that_is_known(admin: Counting) -> None:
    queue = MessageQueue("t", "gone", 0)
    with admin:
        for entry in (
            ConsumeOffset(broker_offset=5, consumer_offset=5),
            ConsumeOffset(broker_offset=5, consumer_offset=1),
        ):
            assert oldest_waiting(admin, {}, GroupOffsets({queue: entry}, 0.0)) is None
    assert admin.pulled == []
