"""The broker's counters, on a clock that the test sets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqserver.broker.stats import SAMPLED_AT_A_TIME, BrokerStats, Flow, Flows, PutTimes, Span
from tests.support.clock import Clock

BOOT_MS = 1_700_000_000_000


def tick(stats: BrokerStats, now_ms: int) -> int:
    """Lets it take the samples that are due; returns how many portions that took."""
    return 1 + sum(1 for _ in stats.tick(now_ms))


class TickingClock(Clock):
    def run(self, stats: BrokerStats, seconds: int) -> None:
        for _ in range(seconds):
            self.now_ms += 1000
            tick(stats, self.now_ms)


def counted() -> tuple[BrokerStats, TickingClock]:
    clock = TickingClock(BOOT_MS)
    stats = BrokerStats("DefaultCluster", clock, frozenset({"broker-a"}))
    tick(stats, BOOT_MS)
    return stats, clock


def put(stats: BrokerStats, topic: str, count: int, size_bytes: int = 100, requests: int = 1) -> None:
    for _ in range(requests):
        stats.puts[topic].add(count // requests, size_bytes // requests)


def test_a_topic_nobody_sent_to_has_no_stats() -> None:
    """315 must say 'not exist', not zeros."""
    stats, _ = counted()
    assert stats.view("TOPIC_PUT_NUMS", "T") is None
    assert stats.view("NO_SUCH_STATS", "x") is None
    assert stats.topic_put_tps("T") == 0.0


def test_messages_before_the_first_sample_are_zeros_and_then_count() -> None:
    stats, clock = counted()
    put(stats, "T", 30, 3000, requests=3)
    found = stats.view("TOPIC_PUT_NUMS", "T")
    assert (found.stats_minute.sum, found.stats_minute.tps) == (0, 0.0)
    clock.run(stats, 10)
    found = stats.view("TOPIC_PUT_NUMS", "T")
    assert (found.stats_minute.sum, found.stats_minute.tps, found.stats_minute.avgpt) == (30, 3.0, 10.0)
    size = stats.view("TOPIC_PUT_SIZE", "T")
    assert (size.stats_minute.sum, size.stats_minute.tps, size.stats_minute.avgpt) == (3000, 300.0, 1000.0)
    assert found.stats_day.sum == 0


def test_a_minute_forgets_what_is_older() -> None:
    stats, clock = counted()
    put(stats, "T", 60)
    clock.run(stats, 60)
    put(stats, "T", 6)
    clock.run(stats, 60)
    found = stats.view("TOPIC_PUT_NUMS", "T")
    assert found.stats_minute.sum == 6
    assert found.stats_minute.tps == 6 / 60


def test_hours_and_days_are_sampled_in_their_own_step() -> None:
    stats, clock = counted()
    put(stats, "T", 10)
    clock.run(stats, 3600)
    found = stats.view("TOPIC_PUT_NUMS", "T")
    assert (found.stats_minute.sum, found.stats_hour.sum, found.stats_day.sum) == (0, 10, 10)


def test_rates_are_none_until_the_broker_has_run_so_long() -> None:
    """Apache shows an empty text there; a zero would be wrong."""
    stats, clock = counted()
    assert stats.rates("put") == [None, None, None]
    put(stats, "T", 50)
    clock.run(stats, 10)
    assert stats.rates("put") == [5.0, None, None]
    clock.run(stats, 50)
    assert stats.rates("put") == [0.0, 50 / 60, None]
    clock.run(stats, 540)
    assert stats.rates("put") == [0.0, 0.0, 50 / 600]


def test_gets_are_by_topic_and_group() -> None:
    stats, clock = counted()
    for size_bytes in (300, 600):
        stats.gets["T", "g"].add(10, size_bytes)
    clock.run(stats, 10)
    assert stats.group_get_tps("T", "g") == 2.0
    assert stats.group_get_tps("T", "other") == 0.0
    found = stats.view("GROUP_GET_SIZE", "T@g")
    assert found.stats_minute.sum == 900
    total = stats.view("BROKER_GET_NUMS", "DefaultCluster")
    assert (total.stats_minute.sum, total.stats_minute.avgpt) == (20, 0.0)


def test_a_deleted_topic_leaves_its_messages_in_the_totals() -> None:
    """Otherwise putTps would fall below zero when a topic is deleted."""
    stats, _ = counted()
    put(stats, "T", 5, 500)
    stats.gets["T", "g"].add(4, 400)
    stats.gets["U", "g"].add(1, 100)
    stats.forget_topic("T")
    assert (stats.put_count, stats.put_size_bytes, stats.get_count) == (5, 500, 5)
    assert stats.view("TOPIC_PUT_NUMS", "T") is None
    stats.forget_group("g")
    assert stats.get_count == 5
    assert not stats.gets


def test_system_topics_do_not_count_as_the_users_messages() -> None:
    stats, _ = counted()
    for topic in ("T", "SCHEDULE_TOPIC_XXXX", "rmq_sys_REVIVE_LOG_DefaultCluster", "broker-a"):
        put(stats, topic, 1)
    assert (stats.put_count, stats.user_put_count) == (4, 1)


def test_many_flows_are_sampled_in_portions_and_totals_need_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of 300,000 at once stopped every client for a third of a second."""
    stats, clock = counted()
    for number in range(20_000):
        put(stats, f"T{number}", 1)
    turns: list[int] = [0]
    sample = Flow.sample

    def counts(self: Flow, span: Span, now_ms: int) -> None:
        turns[-1] += 1
        sample(self, span, now_ms)

    monkeypatch.setattr(Flow, "sample", counts)
    turns.extend(0 for _ in stats.tick(clock.now_ms + 9_999))
    assert sum(turns) == 0, "no span is over"
    turns.extend(0 for _ in stats.tick(clock.now_ms + 10_000))
    assert sum(turns) >= 20_000
    assert max(turns) == SAMPLED_AT_A_TIME
    monkeypatch.setattr(Flows, "values", None)
    assert (stats.put_count, stats.user_put_count, stats.put_size_bytes) == (20_000, 20_000, 2_000_000)


def test_mornings_move_at_midnight() -> None:
    stats, clock = counted()
    put(stats, "T", 3)
    clock.now_ms += 86_400_000
    tick(stats, clock.now_ms)
    assert (stats.put_total_yesterday_morning, stats.put_total_this_morning) == (0, 3)
    put(stats, "T", 4)
    clock.now_ms += 86_400_000
    tick(stats, clock.now_ms)
    assert (stats.put_total_yesterday_morning, stats.put_total_this_morning) == (3, 7)


def test_a_clock_that_jumps_back_breaks_nothing() -> None:
    stats, clock = counted()
    clock.run(stats, 20)
    clock.now_ms -= 3_600_000
    clock.run(stats, 20)
    assert stats.rates("put")[0] == 0.0


def test_rare_events_are_counted_by_name_and_key() -> None:
    stats, clock = counted()
    stats.add("SNDBCK_PUT_NUMS", "T@g")
    stats.add("SNDBCK_PUT_NUMS", "T@g")
    clock.run(stats, 10)
    found = stats.view("SNDBCK_PUT_NUMS", "T@g")
    assert (found.stats_minute.sum, found.stats_minute.avgpt) == (2, 1.0)


def test_put_times_show_the_last_full_minute() -> None:
    times = PutTimes()
    times.note(300, 90)
    times.note(70_000, 10)
    assert times.percentile_ms(99) == 0.0
    times.turn_minute()
    assert times.max_ms == 70
    assert times.distribution().startswith("[<=0ms]:90 [0~10ms]:0 [10~50ms]:0 [50~100ms]:10 [100~200ms]:0 ")
    assert times.distribution().endswith("[10s~]:0 ")
    assert 0.25 <= times.percentile_ms(50) <= 0.512
    assert 65 <= times.percentile_ms(99) <= 132
    times.turn_minute()
    assert times.percentile_ms(99) == 0.0
    assert times.max_ms == 70


@given(st.lists(st.integers(0, 1 << 45), min_size=1))
def test_a_percentile_is_within_a_power_of_two_of_the_true_one(elapsed_us: list[int]) -> None:
    times = PutTimes()
    for each in elapsed_us:
        times.note(each, 1)
    times.turn_minute()
    top_us = max(elapsed_us)
    assert times.percentile_ms(100) * 1000 <= 2 * top_us + 1
    assert times.percentile_ms(100) * 2000 >= min(top_us, 1 << 38)
