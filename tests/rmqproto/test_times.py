"""The grammar of times."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto import times
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import LONG_MAX
from tests.support.clock import in_zone
from tests.support.quick import in_one_test

NOW_MS = 1_795_262_400_123
HOUR_MS = 3_600_000


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nine hours east of UTC, without summer time."""
    yield from in_zone(monkeypatch, "Asia/Tokyo")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from in_zone(monkeypatch, "Europe/Berlin")


@in_one_test(
    ("now", NOW_MS),
    (" NOW ", NOW_MS),
    ("-10m", NOW_MS - 600_000),
    ("10m", NOW_MS - 600_000),
    ("4m ago", NOW_MS - 240_000),
    ("1d12h", NOW_MS - 36 * HOUR_MS),
    ("90s", NOW_MS - 90_000),
    ("+1h30m", NOW_MS + 5_400_000),
    ("-1d2h3m4s5ms", NOW_MS - 93_784_005),
    ("-2w", NOW_MS - 14 * 24 * HOUR_MS),
    ("@1676730526212", 1_676_730_526_212),
    ("@1676730526", 1_676_730_526_000),
    ("@1676730526212345", 1_676_730_526_212),
    ("@1676730526212345678", 1_676_730_526_212),
    ("@0", 0),
    ("2026-01-31T12:00:00Z", 1_769_860_800_000),
    ("2026-01-31T12:00:00.5+01:00", 1_769_857_200_500),
)
def test_a_time_means_one_instant(text: str, meant_ms: int) -> None:
    assert times.parse_time(text, NOW_MS) == meant_ms


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize(
    "text", ["2026-01-31T09:00:00", "2026-01-31#09:00:00:000", "2026-01-31 09:00", "2026-01-31T00:00Z"]
)
def test_a_time_without_a_zone_is_local(text: str) -> None:
    assert times.parse_time(text, NOW_MS) == 1_769_817_600_000


@in_one_test(
     "", "yesterday", "10", "1676730526212", "20260131", "-10", "10x", "@", "@-5", "-4m ago", "ago", "1h ago ago",
     "25:00", "9:5", "12:00:99", "1.5h", "1 h", "1H","\N{EN DASH}1h", "2026-13-01 10:00", "2026/01/31", "2026-01-01#",
     "5min", "999999999999999w", "@99999999999999999999", "2026-13-01#00:00:00:000", "2026-02-30T00:00:00Z", "-100000w",
     "-1h.5m", "9999-12-31T23:59:59-12:00", "\u0661h")  # fmt: skip
def test_what_could_mean_two_things_or_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        times.parse_time(text, NOW_MS)


def test_a_dash_that_is_no_minus_is_named() -> None:
    """As pasted from a web page."""
    with pytest.raises(UsageError) as caught:
        times.parse_time("\N{EN DASH}1h", NOW_MS)
    assert caught.value.hint == "Write a minus, -1h: its first character is U+2013."


def test_mqadmins_bare_milliseconds_are_taken_where_it_takes_them() -> None:
    assert times.parse_mqadmin_time("1676730526212", NOW_MS) == 1_676_730_526_212
    assert times.parse_mqadmin_time("0", NOW_MS) == 0
    assert times.parse_mqadmin_time(str(LONG_MAX), NOW_MS) == LONG_MAX
    assert times.parse_mqadmin_time("-10m", NOW_MS) == NOW_MS - 600_000
    assert times.parse_mqadmin_time("-1", NOW_MS, least=times.END_OF_QUEUES) == -1


@pytest.mark.parametrize("text", ["-1", "-3600000", "-999999999999999999999", "999999999999999999999"])
def test_a_negative_number_is_no_time(text: str) -> None:
    """`resetOffsetByTime -s -3600000` went to the end of every queue, and nothing said so."""
    with pytest.raises(UsageError):
        times.parse_mqadmin_time(text, NOW_MS)


@pytest.mark.parametrize(
    ("text", "unit"),
    [("1676730526", "seconds"), ("1676730526212345", "microseconds"), ("1676730526212345678", "nanoseconds")],
)
def test_a_bare_number_in_another_unit_than_ms_is_refused(text: str, unit: str) -> None:
    """Seconds were taken for ms in 1970, so that `-b` and resets went to the beginning."""
    with pytest.raises(UsageError) as caught:
        times.parse_mqadmin_time(text, NOW_MS)
    assert caught.value.hint == f"If it is in {unit}, write @{text}."
    assert times.parse_time(f"@{text}", NOW_MS) // 1000 == 1_676_730_526


@pytest.mark.parametrize("text", ["20260131", "2026013112", "202601311200", "20260131120000"])
def test_a_date_without_separators_is_no_number_of_milliseconds(text: str) -> None:
    """`resetOffsetByTime -s 20260131` went to the beginning, and with a time of day behind it to the end."""
    with pytest.raises(UsageError) as caught:
        times.parse_mqadmin_time(text, NOW_MS)
    assert caught.value.hint == "If it is a date, write 2026-01-31, with a time behind it or not."


@pytest.mark.usefixtures("tokyo")
def test_a_time_of_day_is_the_last_one() -> None:
    """It is 21:00 of 2026-11-21 in Tokyo."""
    assert times.iso_local(times.parse_time("00:10:00", NOW_MS)) == "2026-11-21 00:10:00.000+09:00"
    assert times.iso_local(times.parse_time("21:00", NOW_MS)) == "2026-11-21 21:00:00.000+09:00"
    assert times.iso_local(times.parse_time("21:01", NOW_MS)) == "2026-11-20 21:01:00.000+09:00"
    assert times.iso_local(times.parse_time("9:05", NOW_MS)) == "2026-11-21 09:05:00.000+09:00"
    assert times.iso_utc(times.parse_time("09:05Z", NOW_MS)) == "2026-11-21 09:05:00.000+00:00"


@pytest.mark.usefixtures("berlin")
def test_what_is_to_come_counts_forward() -> None:
    """It is 13:00 in Berlin."""
    assert times.parse_due_time("1h", NOW_MS) == times.parse_due_time("+1h", NOW_MS) == NOW_MS + HOUR_MS
    assert times.iso_local(times.parse_due_time("13:01", NOW_MS)) == "2026-11-21 13:01:00.000+01:00"
    assert times.iso_local(times.parse_due_time("12:59", NOW_MS)) == "2026-11-22 12:59:00.000+01:00"
    before_the_long_day_ms = times.parse_time("2026-10-24 13:00:01", NOW_MS)
    found_ms = times.parse_due_time("13:00", before_the_long_day_ms)
    assert times.iso_local(found_ms) == "2026-10-25 13:00:00.000+01:00"
    for text in ("-1h", "now", "1h ago", "2026-01-01", "@0"):
        with pytest.raises(UsageError):
            times.parse_due_time(text, NOW_MS)
    with pytest.raises(UsageError) as caught:
        times.parse_due_time("tomorrow", NOW_MS)
    assert "1h (in an hour)" in str(caught.value.hint)


def test_what_is_wrong_with_a_time_to_come_is_advised_as_with_any_other() -> None:
    """The advice of the form that was written was replaced by the list of forms."""
    for text, advice in [("2026-01-31#12", "mqadmin's form"), ("\N{EN DASH}1h", "U+2013")]:
        with pytest.raises(UsageError) as caught:
            times.parse_due_time(text, NOW_MS)
        assert advice in str(caught.value.hint)


def test_both_ends_of_a_range_count_from_now_and_a_plus_from_its_beginning() -> None:
    hour_ago = NOW_MS - HOUR_MS
    assert times.parse_range("2h..1h", NOW_MS) == times.TimeRange(NOW_MS - 2 * HOUR_MS, hour_ago)
    assert times.parse_range("-1h..-10m", NOW_MS) == times.TimeRange(hour_ago, NOW_MS - 600_000)
    assert times.parse_range("-1h..10m", NOW_MS) == times.TimeRange(hour_ago, NOW_MS - 600_000)
    assert times.parse_range("-1h..+10m", NOW_MS) == times.TimeRange(hour_ago, hour_ago + 600_000)
    assert times.parse_range("-1h..now", NOW_MS) == times.TimeRange(hour_ago, NOW_MS)
    assert times.parse_range("-1h..", NOW_MS) == times.TimeRange(hour_ago, None)
    assert times.parse_range("..-1h", NOW_MS) == times.TimeRange(None, hour_ago)
    assert times.parse_range("-1h", NOW_MS) == times.TimeRange(hour_ago, None)
    assert times.time_range("1h", "+10m", NOW_MS) == times.TimeRange(hour_ago, hour_ago + 600_000)
    assert times.time_range(None, "5m", NOW_MS) == times.TimeRange(None, NOW_MS - 300_000)


@in_one_test(
    "", "..", "now..-1h", "-1h..x", "-1h..-2h", "1h..2h", "+1h", "+1h..", "+1h..+2h", "2099-01-01", "1h..2h..3h"
)
def test_a_range_that_is_empty_or_none_or_has_not_begun_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        times.parse_range(text, NOW_MS)


@in_one_test(
    ("yesterday", None, "--since 'yesterday' is not a time"), (None, "x", "--until 'x' is not a time"),
    ("1h", "2h", "ends before it begins"), ("+1m", None, "begins in the future"),
    ("", None, "--since '' is not a time"),
    ("2h..1h", "now", "--since is a range already"), ("3h", "2h..1h", "--until 2h..1h is a range"),
    ("-1", None, "--since -1 is a negative number"),
)  # fmt: skip
def test_a_wrong_range_names_the_option(begin: str | None, end: str | None, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        times.time_range(begin, end, NOW_MS)


@pytest.mark.usefixtures("tokyo")
def test_what_could_have_been_meant_otherwise_is_told() -> None:
    told: list[str] = []
    times.time_range("1h", "20:30", NOW_MS, tell=told.append)
    assert told == [
        "--since 1h is 2026-11-21 20:00:00.123+09:00", "--until 20:30 is 2026-11-21 20:30:00.000+09:00",
    ]  # fmt: skip
    told.clear()
    times.time_range("-1h", "+10m", NOW_MS, tell=told.append)
    assert told == ["--until +10m after the beginning is 2026-11-21 20:10:00.123+09:00"]
    told.clear()
    times.time_range("-1h", "2026-11-21T12:00:00Z", NOW_MS, tell=told.append)
    times.time_range("@1676730526", "now", NOW_MS, tell=told.append)
    times.time_range("1676730526212", str(LONG_MAX), NOW_MS, tell=told.append)
    assert not told
    times.time_range("3600", None, NOW_MS, tell=told.append)
    assert told == ["--since 3600 is 1970-01-01 09:00:03.600+09:00"]


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "instants", "what"),
    [
        # What never was has no instant: systems take the hour before or after.
        ("2026-03-29 02:30", ("2026-03-29 01:30:00.000+01:00", "2026-03-29 03:30:00.000+02:00"), "skipped it"),
        ("2025-10-26#02:30:00:000", ("2025-10-26 02:30:00.000+02:00",), "showed it twice"),
    ],
)
def test_a_local_time_that_the_clocks_skip_or_show_twice_is_told(
    text: str, instants: tuple[str, ...], what: str
) -> None:
    found_ms = times.parse_time(text, NOW_MS)
    assert times.reading(text, found_ms) in {f"{text} is {instant}: the clocks {what}" for instant in instants}


@given(st.integers(0, times.TIMESTAMP_MAX_MS - 24 * HOUR_MS))
def test_what_is_shown_can_be_typed(timestamp_ms: int) -> None:
    assert times.parse_time(times.iso_local(timestamp_ms), 0) == timestamp_ms
    assert times.parse_time(times.iso_utc(timestamp_ms), 0) == timestamp_ms


@given(st.text(max_size=30) | st.text("0123456789:-+.@#hmsdw Zago", max_size=20))
def test_any_text_is_a_time_or_a_usage_error(text: str) -> None:
    try:
        found_ms = times.parse_time(text, NOW_MS)
    except UsageError:
        return
    assert 0 <= found_ms <= times.TIMESTAMP_MAX_MS
    times.reading(text, found_ms)


@pytest.mark.usefixtures("tokyo")
def test_a_destructive_command_names_the_instant_in_utc_and_local_time() -> None:
    said = times.understood(1_769_817_600_000)
    assert said == "2026-01-31 00:00:00.000+00:00 UTC (2026-01-31 09:00:00.000+09:00 local, @1769817600000)"


@pytest.mark.usefixtures("tokyo")
def test_mqadmins_times_are_local() -> None:
    assert times.mqadmin_time(1_769_817_600_007, milliseconds=True) == "2026-01-31 09:00:00,007"
    assert times.mqadmin_time(1_769_817_600_007, milliseconds=False) == "2026-01-31 09:00:00"
