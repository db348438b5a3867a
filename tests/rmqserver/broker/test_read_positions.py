"""The broker's own read positions are ahead of its log: ``config/`` comes from another store, from a copy that was made
after the log's, or from a hand. Nothing may be passed over, and nothing that was delivered comes twice."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqproto.names import REVIVE_GROUP, TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC, revive_topic
from rmqserver.store.timers.timer_check import TimerCheckpoint
from tests.rmqserver.broker.consuming.pop.bench import Bench as PopBench
from tests.rmqserver.broker.relays import test_timers as timers
from tests.rmqserver.broker.relays.test_delay import LEVEL_MS
from tests.rmqserver.broker.relays.test_delay import Bench as DelayBench
from tests.rmqserver.broker.transactions.bench import TIMEOUT_MS
from tests.rmqserver.broker.transactions.bench import Bench as HalfBench
from tests.support.clock import Clock

FAR = 1 << 60


def copied(store: Path, config: Path, target: Path) -> Path:
    """The log of one store with the tables of another."""
    shutil.copytree(store, target, ignore=shutil.ignore_patterns("lock", "config"))
    shutil.copytree(config / "config", target / "config")
    return target


# --- delay levels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "true"), [(0, 0), (2, 2), (3, 3), (4, 3), (5, 3), (6, 3), (7, 3), (1000, 3), (FAR, 3), (-5, -5)]
)
def test_a_level_goes_on_behind_what_its_log_has_delivered(tmp_path: Path, said: int, true: int) -> None:
    """Three are delivered, three wait. Two of those were due a moment before the last message was stored."""
    bench = DelayBench(tmp_path)
    for number in range(3):
        bench.wait(b"%d" % number)
        bench.clock.now_ms += 200
    bench.clock.now_ms += LEVEL_MS
    assert trio.run(bench.deliver)
    for number in range(3, 6):
        bench.wait(b"%d" % number)
        bench.clock.now_ms += 200
    bench.clock.now_ms += LEVEL_MS - 300
    bench.wait(b"6")
    bench.files.save("delayOffset.json", {"offsetTable": {"1": said}})
    bench.files.wait_until_saved()
    bench.close()
    again = DelayBench(tmp_path)
    again.delays.hold_back()
    assert again.delays.offsets == {1: true}
    again.close()


def test_a_level_trusts_what_was_due_long_ago(tmp_path: Path) -> None:
    """Its copies may have expired, or their topic may be deleted."""
    bench = DelayBench(tmp_path)
    for _ in range(3):
        bench.wait()
    bench.clock.now_ms += 100_000
    assert trio.run(bench.deliver)
    bench.store.delete_topic("T")
    bench.clock.now_ms += 100_000
    bench.wait(topic="U")
    bench.files.save("delayOffset.json", {"offsetTable": {"1": 3}})
    bench.files.wait_until_saved()
    bench.delays.load()
    bench.delays.hold_back()
    assert bench.delays.offsets == {1: 3}
    bench.close()


# --- transactions ----------------------------------------------------------------------------------------------------


def ended_and_open(directory: Path) -> tuple[HalfBench, dict[str, int]]:
    """Two transactions that have ended, and two that have not; with the true progress."""
    bench = HalfBench(directory)
    for number in range(2):
        bench.end(bench.send_half(b"ended %d" % number))
    for number in range(2):
        bench.send_half(b"open %d" % number)
    bench.write_op_messages()
    trio.run(lambda: bench.check(0))
    return bench, {TRANSACTION_HALF_TOPIC: 2, TRANSACTION_OP_TOPIC: 1}


@pytest.mark.parametrize("half", [None, 2, 3, 4, 5, 1000, FAR])
@pytest.mark.parametrize("op", [None, 1, 2, 1000])
def test_open_transactions_are_asked_about_wherever_the_files_stand(
    tmp_path: Path, half: int | None, op: int | None
) -> None:
    bench, true = ended_and_open(tmp_path / "store")
    bench.close()
    opened = HalfBench(tmp_path / "store")
    for topic, said in ((TRANSACTION_HALF_TOPIC, half), (TRANSACTION_OP_TOPIC, op)):
        assert opened.parts.offsets.committed(TRANSACTION_GROUP, topic, 0) == true[topic]
        if said is not None:
            opened.parts.offsets.commit(TRANSACTION_GROUP, topic, 0, said)
    opened.parts.offsets.save()
    opened.abandon()
    again = HalfBench(tmp_path / "store", clock=opened.clock)
    asked = trio.run(lambda: again.check(TIMEOUT_MS + 1))
    assert sorted(each.message.body for each in asked) == [b"open 0", b"open 1"]
    assert sorted(again.bodies()) == [b"ended 0", b"ended 1"]
    again.close()


def test_a_transaction_that_was_asked_about_after_the_log_was_copied_is_asked_about(tmp_path: Path) -> None:
    bench, _ = ended_and_open(tmp_path / "store")
    bench.flush()
    shutil.copytree(tmp_path / "store", tmp_path / "early", ignore=shutil.ignore_patterns("lock"))
    assert len(trio.run(lambda: bench.check(TIMEOUT_MS + 1))) == 2
    bench.save()
    bench.close()
    again = HalfBench(copied(tmp_path / "early", tmp_path / "store", tmp_path / "both"), clock=bench.clock)
    asked = trio.run(lambda: again.check(TIMEOUT_MS + 1))
    assert sorted(each.message.body for each in asked) == [b"open 0", b"open 1"]
    again.close()


# --- POP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [1, 1000, FAR])
def test_messages_that_were_popped_come_again(tmp_path: Path, ahead: int) -> None:
    bench = PopBench(tmp_path)
    bench.send(b"acknowledged")
    bench.send(b"came again")
    acknowledged, _ = bench.take()
    bench.ack(acknowledged.handle)
    bench.wait(60_000)
    (once_more,) = bench.take(invisible_ms=5_000)
    bench.ack(once_more.handle)
    bench.wait(60_000)
    bench.send(b"popped")
    (popped,) = bench.take(invisible_ms=10_000)
    assert popped.body == b"popped"
    topic = revive_topic(bench.parts.config.broker_cluster_name)
    bench.store.flush()
    bench.parts.save_pop()
    for queue_id in range(8):
        end = bench.store.max_offset(topic, queue_id)
        bench.parts.offsets.commit(REVIVE_GROUP, topic, queue_id, end - 1 + ahead)
    bench.parts.offsets.save()
    bench.close()
    bench._open()
    bench.parts.load_pop(None)
    bench.wait(60_000)
    assert [each.body for each in bench.take()] == [b"popped"]
    bench.close()


# --- timers ----------------------------------------------------------------------------------------------------------


def with_timers(directory: Path, clock: Clock) -> None:
    """One timer is delivered; two wait."""
    bench = timers.Bench(directory, clock)
    for number, delay_s in enumerate((2, 100, 200)):
        bench.send(b"%d" % number, key=str(number), TIMER_DELAY_SEC=delay_s)
    assert trio.run(bench.at, timers.START_MS + 4000) == [b"0"]
    bench.stop()


def all_come(directory: Path, clock: Clock) -> list[bytes]:
    bench = timers.Bench(directory, clock)
    trio.run(bench.settle)
    bench.send(b"new", key="new", TIMER_DELAY_SEC=20)
    found: list[bytes] = []
    for after_s in (10, 50, 120, 250, 400):
        found = trio.run(bench.at, timers.START_MS + after_s * 1000)
    bench.stop()
    return found


CHANGES: list[dict[str, Any]] = [
    {},
    {"queue_offset": 4},
    {"queue_offset": 1000, "master_queue_offset": 1000},
    {"queue_offset": FAR, "log_position": FAR - FAR % 52},
    {"log_position": 52 * 1000},
    {"log_position": 7},
    {"log_position": 0},
    {"log_position": 52},
    {"queue_offset": 1},
    {"queue_offset": 0, "log_position": 0},
    {"read_time_ms": timers.START_MS + 150_000},
    {"read_time_ms": timers.START_MS * 2},
    {"read_time_ms": timers.START_MS + 150_000, "queue_offset": 1000},
    {"queue_offset": 0, "log_position": 0, "master_queue_offset": 1000, "read_time_ms": timers.START_MS * 2},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_every_timer_comes_once_wherever_timercheck_stands(tmp_path: Path, changes: dict[str, Any]) -> None:
    clock = Clock(timers.START_MS + 300)
    with_timers(tmp_path / "store", clock)
    path = tmp_path / "store/config/timercheck"
    found = TimerCheckpoint(*_fields(path))
    for name, value in changes.items():
        setattr(found, name, value)
    path.write_bytes(found.packed().ljust(4096, b"\0"))
    assert all_come(tmp_path / "store", clock) == [b"0", b"new", b"1", b"2"]


def test_timers_before_the_place_of_timercheck_come_though_one_may_come_twice(tmp_path: Path) -> None:
    """The first was due when it was read, so no unit tells of it."""
    clock = Clock(timers.START_MS + 300)
    with_timers(tmp_path / "store", clock)
    path = tmp_path / "store/config/timercheck"
    found = TimerCheckpoint(*_fields(path))
    found.queue_offset = 0
    path.write_bytes(found.packed().ljust(4096, b"\0"))
    assert all_come(tmp_path / "store", clock)[-3:] == [b"new", b"1", b"2"]


def _fields(path: Path) -> tuple[int, ...]:
    data = path.read_bytes()
    return tuple(int.from_bytes(data[at : at + 8], "big", signed=True) for at in range(0, 56, 8))


@pytest.mark.slow
@pytest.mark.parametrize("other_count", [1, 3, 7])
def test_every_timer_comes_once_under_the_timercheck_of_another_store(tmp_path: Path, other_count: int) -> None:
    clock, other_clock = Clock(timers.START_MS + 300), Clock(timers.START_MS + 300)
    with_timers(tmp_path / "store", clock)
    other = timers.Bench(tmp_path / "other", other_clock)
    for number in range(other_count):
        other.send(b"%d" % number, key=str(number), TIMER_DELAY_SEC=150 + number)
    trio.run(other.at, timers.START_MS + 120_000)
    other.stop()
    store = copied(tmp_path / "store", tmp_path / "other", tmp_path / "both")
    found = all_come(store, clock)
    assert sorted(found, key=found.index)[-2:] == [b"1", b"2"]
    assert found.count(b"1") == found.count(b"2") == found.count(b"new") == 1


def test_timers_that_were_delivered_after_the_log_was_copied_come(tmp_path: Path) -> None:
    clock = Clock(timers.START_MS + 300)
    with_timers(tmp_path / "store", clock)
    shutil.copytree(tmp_path / "store", tmp_path / "early", ignore=shutil.ignore_patterns("lock"))
    bench = timers.Bench(tmp_path / "store", clock)
    assert trio.run(bench.at, timers.START_MS + 150_000) == [b"0", b"1"]
    bench.stop()
    both = copied(tmp_path / "early", tmp_path / "store", tmp_path / "both")
    shutil.rmtree(both / "timerlog")
    shutil.copytree(tmp_path / "store/timerlog", both / "timerlog")
    shutil.copy(tmp_path / "store/timerwheel", both / "timerwheel")
    clock.now_ms = timers.START_MS + 5000
    assert all_come(both, clock) == [b"0", b"new", b"1", b"2"]
