"""The grammar of times."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto import times
from rmqproto.errors import UsageError
from tests.support.clock import in_zone

NOW_MS = 1_795_262_400_123
HOUR_MS = 3_600_000


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nine hours east of UTC, without summer time."""
    yield from in_zone(monkeypatch, "Asia/Tokyo")


@pytest.mark.parametrize(
    ("text", "meant_ms"),
    [
        ("now", NOW_MS),
        (" NOW ", NOW_MS),
        ("-10m", NOW_MS - 600_000),
        ("10m", NOW_MS + 600_000),
        ("+1h30m", NOW_MS + 5_400_000),
        ("-1d2h3m4s5ms", NOW_MS - 93_784_005),
        ("-2w", NOW_MS - 14 * 24 * HOUR_MS),
        ("@1676730526212", 1_676_730_526_212),
        ("@1676730526", 1_676_730_526_000),
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("2026-01-31T12:00:00.5+01:00", 1_769_857_200_500),
    ],
)
def test_a_time_means_one_instant(text: str, meant_ms: int) -> None:
    assert times.parse_time(text, NOW_MS) == meant_ms


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize(
    "text", ["2026-01-31T09:00:00", "2026-01-31#09:00:00:000", "2026-01-31 09:00", "2026-01-31T00:00Z"]
)
def test_a_time_without_a_zone_is_local(text: str) -> None:
    assert times.parse_time(text, NOW_MS) == 1_769_817_600_000


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "10", "1676730526212", "20260131", "-10", "10x", "@", "@-5", "2026-13-01#00:00:00:000",
     "2026-01-01#", "2026-02-30T00:00:00Z", "-100000w", "-1h.5m", "9999-12-31T23:59:59-12:00"],
)  # fmt: skip
def test_what_could_mean_two_things_or_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        times.parse_time(text, NOW_MS)


def test_mqadmins_bare_milliseconds_are_taken_where_it_takes_them() -> None:
    assert times.parse_mqadmin_time("1676730526212", NOW_MS) == 1_676_730_526_212
    assert times.parse_mqadmin_time("-1", NOW_MS) == -1
    assert times.parse_mqadmin_time("-10m", NOW_MS) == NOW_MS - 600_000


def test_a_duration_at_the_end_of_a_range_counts_from_its_beginning() -> None:
    assert times.parse_range("-1h..10m", NOW_MS) == times.TimeRange(NOW_MS - HOUR_MS, NOW_MS - HOUR_MS + 600_000)
    assert times.parse_range("-1h..now", NOW_MS) == times.TimeRange(NOW_MS - HOUR_MS, NOW_MS)
    assert times.parse_range("-1h..", NOW_MS) == times.TimeRange(NOW_MS - HOUR_MS, None)
    assert times.parse_range("..-1h", NOW_MS) == times.TimeRange(None, NOW_MS - HOUR_MS)
    assert times.parse_range("-1h", NOW_MS) == times.TimeRange(NOW_MS - HOUR_MS, None)


@pytest.mark.parametrize("text", ["", "..", "now..-1h", "-1h..x", "-1h..-2h"])
def test_a_range_that_is_empty_or_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        times.parse_range(text, NOW_MS)


@given(st.integers(0, times.TIMESTAMP_MAX_MS - 24 * HOUR_MS))
def test_what_is_shown_can_be_typed(timestamp_ms: int) -> None:
    assert times.parse_time(times.iso_local(timestamp_ms), 0) == timestamp_ms
    assert times.parse_time(times.iso_utc(timestamp_ms), 0) == timestamp_ms


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_a_usage_error(text: str) -> None:
    try:
        found_ms = times.parse_time(text, NOW_MS)
    except UsageError:
        return
    assert 0 <= found_ms <= times.TIMESTAMP_MAX_MS


@pytest.mark.usefixtures("tokyo")
def test_a_destructive_command_names_the_instant_in_utc_and_local_time() -> None:
    said = times.understood(1_769_817_600_000)
    assert said == "2026-01-31 00:00:00.000+00:00 UTC (2026-01-31 09:00:00.000+09:00 local, @1769817600000)"


@pytest.mark.usefixtures("tokyo")
def test_mqadmins_times_are_local() -> None:
    assert times.mqadmin_time(1_769_817_600_007, milliseconds=True) == "2026-01-31 09:00:00,007"
    assert times.mqadmin_time(1_769_817_600_007, milliseconds=False) == "2026-01-31 09:00:00"
