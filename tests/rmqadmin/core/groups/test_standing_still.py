"""Since when queues of a group have stood still, and how long their waiting messages are kept."""

from rmqadmin.core.groups.group_standing import QueueStanding
from rmqadmin.core.groups.lag_trend import KeptSettings, StandingStill
from rmqclient.admin import AdminClient
from rmqproto.bodies.statistics import ConsumeOffset
from tests.rmqadmin.core.groups.test_lag_trend import A, B, reading

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
