"""Units, near names, progress, and what a user is told whom no controller obeys."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.commands.server.controllers import what_to_do
from rmqadmin.core.names import did_you_mean, near_name
from rmqadmin.core.progress import BytesDone, CountDone
from rmqadmin.core.results import columns
from rmqadmin.core.servers.broker_state import StatusRow
from rmqadmin.core.terminal_text import display_width, shortened_at_end, shortened_in_middle
from rmqadmin.core.units import age, due, duration, rate
from rmqproto.bodies.replication import ReplicaIdentity, ReplicaSet
from tests.support.quick import in_one_test


@in_one_test(
    ("pageCacheLockTimeMills", "value_ms"), ("putMessageEntireTimeMax", "value_ms"), ("putLatency999", "value_ms"),
    ("masterLeaseLeftMs", "value_ms"), ("timerReadBehind", "value_s"), ("dispatchBehindBytes", "value_bytes"),
    ("commitLogDiskRatio_/a", "value_ratio"), ("putTps", "value_tps"), ("putMessageTimesTotal", "value"),
)  # fmt: skip
def test_a_value_has_the_unit_that_its_name_ends_with(name: str, column: str) -> None:
    row = StatusRow(broker_addr="a:1", name=name, value=8300)
    given = next(one for one in columns(StatusRow) if one.name == "value")
    assert row.column_of(given).name == column


def test_the_nearest_name_in_any_case_as_it_is_written() -> None:
    assert near_name("TOPICLIST", ["topicStatus", "topicList"]) == "topicList"
    assert near_name("topiclst", ["topicStatus", "topicList"]) == "topicList"
    assert did_you_mean("topiclst", ["topicList"]) == "Did you mean topicList?"
    assert near_name("zzz", ["topicList"]) is did_you_mean("zzz", ["topicList"]) is None


NAME = "broker-a"


def replica(broker_id: int, *, alive: bool = True) -> ReplicaIdentity:
    return ReplicaIdentity(alive=alive, broker_address=f"h:{broker_id}", broker_id=broker_id, broker_name=NAME)


KNOWN = ReplicaSet(
    in_sync_replicas=[replica(1), replica(2)], not_in_sync_replicas=[replica(3), replica(4, alive=False)],
    master_address="h:1", master_broker_id=1, master_epoch=4,
)  # fmt: skip
MASTERLESS = ReplicaSet(in_sync_replicas=[replica(1, alive=False)], not_in_sync_replicas=[replica(2)])


@in_one_test(
    (None, 2, "The controller knows no broker broker-a: one registers if enableControllerMode=true."),
    (
        KNOWN,
        9,
        "broker-a has no replica 9, but 1 at h:1, 2 at h:2, 3 at h:3, 4 at h:4. In sync and alive: 2 at h:2.",
    ),
    (KNOWN, 4, "The replica 4 at h:4 is not alive: start it. In sync and alive: 2 at h:2."),
    (KNOWN, 3, "The replica 3 is alive and not in sync: `rmqadmin haStatus -b h:1` shows what it lacks."),
    (KNOWN, 2, "`rmqadmin haStatus -b h:1` shows whether the replica 2 is behind. Try again, or stop the master"),
    (MASTERLESS, 1, "The replica 1 at h:1 is not alive: start it. In sync and alive: none."),
    (MASTERLESS, 2, "In sync and alive: none. With enableElectUncleanMaster=true"),
)
def test_it_says_who_is_alive_and_in_sync(known: ReplicaSet | None, wanted: int, told: str) -> None:
    """It said "Failed to elect a new master", and nothing else."""
    assert told in what_to_do(known, NAME, wanted)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_what_is_over_in_a_second_says_nothing(clock: list[float]) -> None:
    said: list[str | None] = []
    done = CountDone(said.append, "topics")
    for count in range(1, 10):
        clock[0] += 0.1
        done(count, 10)
    done.clear()
    assert said == []


def test_counts_and_their_rate_are_said_and_taken_away(clock: list[float]) -> None:
    said: list[str | None] = []
    done = CountDone(said.append, "topics")
    done(1, 3000)
    for count in (1500, 1501):  # the second comes too soon after the first
        clock[0] += 1.0 if count == 1500 else 0.1
        done(count, 3000)
    clock[0] += 0.9
    done(3000, 3000)
    done(1, 50)  # the next round has its own rate
    clock[0] += 2.0
    done(30, 50)
    done.clear()
    assert said == ["1,500 of 3,000 topics, 1,500/s", "3,000 of 3,000 topics, 1,500/s", "30 of 50 topics, 15/s", None]


def test_bytes_are_said_with_what_is_done_to_them(clock: list[float]) -> None:
    said: list[str | None] = []
    done = BytesDone(said.append)
    clock[0] += 2.0
    done("reading the log", 0, 1 << 20)
    clock[0] += 2.0
    done("reading the log", 1 << 19, 1 << 20)
    done.clear()
    assert said == ["reading the log: 2 s", "reading the log: 4 s, 512.0 KiB of at most 1.0 MiB, 128.0 KiB/s", None]


MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW_MS = 1_795_262_400_000


@in_one_test(
    (0, "now"), (999, "now"), (1000, "1s ago"), (4 * MINUTE_MS + 59_000, "4m ago"), (HOUR_MS, "1h ago"),
    (49 * HOUR_MS, "2d ago"), (24_000 * 24 * HOUR_MS, "24,000d ago"), (-5 * MINUTE_MS, "in 5m"), (-1, "now"),
)  # fmt: skip
def test_ages(length_ms: int, text: str) -> None:
    assert due(NOW_MS - length_ms, NOW_MS) == text
    if length_ms > -1000:
        assert age(NOW_MS - length_ms, NOW_MS) == text


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("ahead_ms", "text"), [(3000, "12:00:03"), (13 * HOUR_MS, "2026-11-22 01:00:00"), (999, "now")]
)
def test_what_was_stored_was_not_stored_in_the_future(ahead_ms: int, text: str) -> None:
    """A broker whose clock is ahead, and what came after `msg cat --follow` had begun, were shown as "in 3s"."""
    assert age(NOW_MS + ahead_ms, NOW_MS) == text


@pytest.mark.parametrize(
    ("length_ms", "text"), [(0, "0 ms"), (0.84, "0.8 ms"), (12.7, "13 ms"), (850, "850 ms"), (12_000.0, "12 s")]
)
def test_short_durations_keep_a_tenth(length_ms: float, text: str) -> None:
    assert duration(length_ms) == text


def test_rates_have_a_digit_behind_the_point() -> None:
    """``statsAll`` used to print 14 digits after the point."""
    assert [rate(value) for value in (None, 0.0, 16.666666666666668, 1234567.89)] == ["-", "0.0", "16.7", "1,234,567.9"]


@given(st.text(), st.integers(1, 40))
def test_a_shortened_text_fits(text: str, width: int) -> None:
    for shorten in (shortened_at_end, shortened_in_middle):
        short = shorten(text, width)
        assert display_width(short) <= width
        assert short == text or "…" in short


def test_an_id_keeps_both_of_its_ends() -> None:
    assert shortened_in_middle("7F000001041D4E0E", 9) == "7F00…4E0E"
    assert shortened_at_end("many words", 6) == "many …"
