"""The grammar of times on the command line, in one place: what a user may write, and the instant it means.

    now                       this instant
    -10m  +2h  -1h30m         a duration before or after now: ms s m h d w
    @1676730526212            the epoch in milliseconds (13 digits), or in seconds (10 digits)
    2026-01-31T12:00:00Z      ISO 8601; without a zone it is local time, without a time the day's start
    2026-01-31#12:00:00:000   mqadmin's form, local time
    1676730526212             where mqadmin takes epoch milliseconds: bare
    A..B                      a range; either end may be missing, and a duration B counts from A

Nothing here reads the clock: the caller passes ``now_ms``. Times are ms since the epoch.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.java.whole_numbers import check_range

TIMESTAMP_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999. Later times have no ISO form."""

_SPELLINGS = "Write now, -10m, @1676730526212, 2026-01-31T12:00:00Z or 2026-01-31#12:00:00:000."
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"([+-]?)((?:\d{1,15}(?:ms|[smhdw]))+)")
_DURATION_PART = re.compile(r"(\d+)(ms|[smhdw])")
_EPOCH = re.compile(r"@(\d{1,15})")
_MQADMIN = re.compile(r"(\d{4})-(\d{2})-(\d{2})#(\d{2}):(\d{2}):(\d{2}):(\d{1,3})")
_EPOCH_SECONDS_DIGITS_MAX = 10
RANGE = ".."


class TimeRange(msgspec.Struct, frozen=True):
    """From ``begin_ms`` to ``end_ms``, both included. None means open."""

    begin_ms: int | None
    end_ms: int | None


def parse_time(text: str, now_ms: int, *, base_ms: int | None = None) -> int:
    """The instant that ``text`` means. A duration counts from ``base_ms``, or from now. UsageError for anything
    else."""
    text = text.strip()
    if text.lower() == "now":
        return now_ms
    duration_ms = parse_duration(text)
    if duration_ms is not None:
        found = (now_ms if base_ms is None else base_ms) + duration_ms
    elif epoch := _EPOCH.fullmatch(text):
        digits = epoch.group(1)
        found = int(digits) * (1000 if len(digits) <= _EPOCH_SECONDS_DIGITS_MAX else 1)
    elif "#" in text:
        found = _parse_mqadmin(text)
    else:
        found = _parse_iso(text)
    if not 0 <= found <= TIMESTAMP_MAX_MS:
        raise UsageError(f"{text!r} is before 1970 or after 9999", hint=_SPELLINGS)
    return found


def parse_mqadmin_time(text: str, now_ms: int) -> int:
    """Like ``parse_time``, but also takes bare epoch milliseconds, as mqadmin does. A negative number is returned as it
    is."""
    stripped = text.strip()
    if re.fullmatch(r"-?\d{1,99}", stripped):
        check_range("the time", stripped, LONG_MAX)
        return int(stripped)
    return parse_time(stripped, now_ms)


def parse_range(text: str, now_ms: int) -> TimeRange:
    """``A..B``, ``A..``, ``..B``. A single time is a beginning. UsageError if the range ends before it begins."""
    first, separator, second = text.strip().partition(RANGE)
    begin_ms = parse_time(first, now_ms) if first else None
    end_ms = parse_time(second, now_ms, base_ms=begin_ms) if separator and second else None
    if begin_ms is None and end_ms is None:
        raise UsageError(f"{text!r} is not a time range", hint="Write A..B, A.. or ..B, for example -1h..now.")
    if begin_ms is not None and end_ms is not None and end_ms < begin_ms:
        raise UsageError(f"the range {text!r} ends before it begins")
    return TimeRange(begin_ms, end_ms)


def parse_duration(text: str) -> int | None:
    """``10m``, ``-1h30m`` in ms. None for anything but a duration."""
    found = _DURATION.fullmatch(text)
    if not found:
        return None
    sign, parts = found.groups()
    total_ms = sum(int(count) * _UNIT_MS[unit] for count, unit in _DURATION_PART.findall(parts))
    return -total_ms if sign == "-" else total_ms


def _parse_mqadmin(text: str) -> int:
    found = _MQADMIN.fullmatch(text)
    if not found:
        raise UsageError(f"{text!r} is not a time", hint="mqadmin's form is yyyy-MM-dd#HH:mm:ss:SSS.")
    year, month, day, hour, minute, second, millisecond = (int(part) for part in found.groups())
    try:
        moment = datetime(year, month, day, hour, minute, second, millisecond * 1000)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a time: {error}") from None
    return _epoch_ms(moment)


def _parse_iso(text: str) -> int:
    # fromisoformat also takes eight digits as a date, so "20260131", or an epoch with a forgotten @, would pass.
    if not re.match(r"\d{4}-", text):
        raise UsageError(f"{text!r} is not a time", hint=_SPELLINGS)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time", hint=_SPELLINGS) from None
    return _epoch_ms(moment)


def _epoch_ms(moment: datetime) -> int:
    """The epoch time in ms. A time without a zone is local time."""
    try:
        return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except (OverflowError, ValueError):
        raise UsageError(f"{moment.isoformat()} is out of range") from None


# --- writing ---------------------------------------------------------------------------------------------------------


def iso_local(timestamp_ms: int) -> str:
    """``2026-01-31 12:00:00.000+01:00``: local time with its offset, which ``parse_time`` reads back. ``@`` and the ms
    for a time before 1970 or after 9999, which a producer may give as a message's birth time."""
    if not 0 <= timestamp_ms <= TIMESTAMP_MAX_MS:
        return f"@{timestamp_ms}"
    return _iso(datetime.fromtimestamp(timestamp_ms // 1000, UTC).astimezone(), timestamp_ms)


def iso_utc(timestamp_ms: int) -> str:
    """``2026-01-31 11:00:00.000+00:00``."""
    return _iso(datetime.fromtimestamp(timestamp_ms // 1000, UTC), timestamp_ms)


def _iso(moment: datetime, timestamp_ms: int) -> str:
    return (moment + timedelta(milliseconds=timestamp_ms % 1000)).isoformat(sep=" ", timespec="milliseconds")


def understood(timestamp_ms: int) -> str:
    """How a destructive command shows which instant it understood: in UTC and local time, unless it is after 9999."""
    if timestamp_ms > TIMESTAMP_MAX_MS:
        return f"@{timestamp_ms}"
    return f"{iso_utc(timestamp_ms)} UTC ({iso_local(timestamp_ms)} local, @{timestamp_ms})"


def mqadmin_time(timestamp_ms: int, *, milliseconds: bool) -> str:
    """A local time as mqadmin prints it: ``yyyy-MM-dd HH:mm:ss``, followed by ``,SSS`` if wanted."""
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).astimezone()
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text},{timestamp_ms % 1000:03d}" if milliseconds else text


def time_range(
    begin: str | None, end: str | None, now_ms: int, option: str = "-b", end_option: str = "-e"
) -> TimeRange:
    """The range from ``option`` (``-b``) and ``end_option``; the first alone may also be a range."""
    if begin is not None and RANGE in begin:
        if end is not None:
            raise UsageError(f"{option} is a range already: leave out {end_option}")
        return parse_range(begin, now_ms)
    return TimeRange(
        None if begin is None else parse_mqadmin_time(begin, now_ms),
        None if end is None else parse_mqadmin_time(end, now_ms),
    )
