"""The grammar of times, for commands, dashboard and Spark: what a user may write, and the instant that it means.

    now                       this instant
    1h  1h30m  4m ago         a duration before now: ms s m h d w
    -10m  +2h                 a duration before or after now
    09:30  09:30:15           the last time that the clock showed it, local time
    2026-01-31T12:00:00Z      ISO 8601; without a zone it is local time, without a time the day's start
    2026-01-31#12:00:00:000   mqadmin's form, local time
    @1676730526               the epoch in s; 13 digits are ms, 16 us, 19 ns
    1676730526212             where mqadmin takes epoch milliseconds: bare
    A..B                      a range; either end may be missing

In a range, ``+10m`` as its end counts from its beginning. Nothing here reads the clock: the caller passes ``now_ms``.
Times are ms since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta

import msgspec

from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import LONG_MAX, check_range

TIMESTAMP_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999. Later times have no ISO form."""


class Spellings(msgspec.Struct, frozen=True):
    """What a caller takes for a time. ``advice`` is the hint of errors. ``needs_zone``: what would be local time is
    refused, for callers whose machines may be in several zones."""

    advice: str
    needs_zone: bool = False


STORED = Spellings("Write 1h (an hour ago), 09:30, 2026-01-31 12:00, 2026-01-31T12:00:00Z, @1676730526212 or now.")
STORED_WITH_ZONE = Spellings("Write 1h (an hour ago), 2026-01-31T12:00:00Z, @1676730526212 or now.", needs_zone=True)
_DUE = Spellings("Write 1h (in an hour), 09:30, 2026-01-31 12:00, 2026-01-31T12:00:00Z or @1676730526212.")

_RANGES = "Write A..B, A.. or ..B, for example 2h..1h."
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"([+-]?)((?:[0-9]{1,15}(?:ms|[smhdw]))+)")
_DURATION_PART = re.compile(r"([0-9]+)(ms|[smhdw])")
_AGE = re.compile(r"(.+?)\s+ago")
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}.*")
_EPOCH = re.compile(r"@([0-9]{1,19})")
_BARE = re.compile(r"-?[0-9]{1,99}")
_MQADMIN = re.compile(r"(\d{4})-(\d{2})-(\d{2})#(\d{2}):(\d{2}):(\d{2}):(\d{1,3})", re.ASCII)
_DIGITS_MAX_BY_UNIT = ((10, 1000, 1), (15, 1, 1), (17, 1, 1000), (19, 1, 1_000_000))
"""How many digits an epoch in s, ms, us and ns has, and what makes it ms: a factor and a divisor."""
_SECONDS_OF_NOWADAYS = range(1_000_000_000, 4_100_000_000)
"""The years 2001 to 2099."""
_NO_MINUS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff0d"
"""Hyphens and dashes that a web page or a text program puts in the place of a minus."""
_COMPACT_DATE = re.compile(r"20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])([01][0-9]|2[0-3])?([0-5][0-9]){0,2}")
"""``20260131`` and ``20260131120000``, which as milliseconds would be 1970 or a distant future."""
_MS_OF_1970 = 31_536_000_000
RANGE = ".."
END_OF_QUEUES = -1
"""mqadmin's resets take it for a time: the end of every queue."""

Tell = Callable[[str], None]
"""Takes what a user should know about how a time was understood."""


class TimeRange(msgspec.Struct, frozen=True):
    """From ``begin_ms`` to ``end_ms``, both included. None means open."""

    begin_ms: int | None
    end_ms: int | None


def parse_time(text: str, now_ms: int, *, plus_from_ms: int | None = None, spellings: Spellings = STORED) -> int:
    """The instant that ``text`` means. ``+10m`` counts from ``plus_from_ms``, or from now. UsageError for anything
    else."""
    text = text.strip()
    length_ms = _signed_duration(text)
    if text.lower() == "now":
        found = now_ms
    elif length_ms is not None:
        found = (plus_from_ms if text.startswith("+") and plus_from_ms is not None else now_ms) + length_ms
    elif epoch := _EPOCH.fullmatch(text):
        found = _epoch(epoch.group(1))
    elif "#" in text:
        found = _local_ms(_parse_mqadmin(text), text, spellings)
    elif _CLOCK.fullmatch(text):
        found = _parse_clock(text, now_ms, spellings)
    else:
        found = _local_ms(_parse_iso(text, spellings), text, spellings)
    if not 0 <= found <= TIMESTAMP_MAX_MS:
        raise UsageError(f"{text!r} is before 1970 or after 9999", hint=spellings.advice)
    return found


def parse_mqadmin_time(
    text: str, now_ms: int, *, plus_from_ms: int | None = None, spellings: Spellings = STORED, least: int = 0
) -> int:
    """Like ``parse_time``, but also takes bare epoch milliseconds, as mqadmin does, from ``least`` on. UsageError for a
    bare number that can only be meant in another unit: read as ms it would be 1970, or after 9999."""
    stripped = text.strip()
    if not _BARE.fullmatch(stripped):
        return parse_time(stripped, now_ms, plus_from_ms=plus_from_ms, spellings=spellings)
    check_range("the time", stripped, LONG_MAX)
    number = int(stripped)
    if _COMPACT_DATE.fullmatch(stripped):
        hint = f"If it is a date, write {stripped[:4]}-{stripped[4:6]}-{stripped[6:8]}, with a time behind it or not."
        raise UsageError(f"{stripped} in milliseconds is {iso_local(number)}", hint=hint)
    if number < least:
        raise UsageError(f"{stripped} is a negative number, and no time", hint="An hour ago is -1h, or 1h.")
    for unit, in_a_second in (("seconds", 1), ("microseconds", 10**6), ("nanoseconds", 10**9)):
        if number // in_a_second in _SECONDS_OF_NOWADAYS:
            read = iso_local(number) if number <= TIMESTAMP_MAX_MS else "after 9999"
            raise UsageError(f"{stripped} in milliseconds is {read}", hint=f"If it is in {unit}, write @{stripped}.")
    return number


def parse_due_time(text: str, now_ms: int) -> int:
    """The instant to come that ``text`` means: a duration without a sign counts from now on, and a time of day is the
    next one. UsageError if it is not in the future."""
    text = text.strip()
    if _DURATION.fullmatch(text) and text[0] not in "+-":
        text = f"+{text}"
    found = parse_time(text, now_ms, spellings=_DUE)
    for ahead_ms in (_UNIT_MS["d"], _UNIT_MS["d"] + _UNIT_MS["h"]):  # the day on which clocks go back has 25 hours
        if found <= now_ms and _CLOCK.fullmatch(text):
            found = parse_time(text, now_ms + ahead_ms)
    if found <= now_ms:
        raise UsageError(f"{text!r} is not in the future: it is {iso_local(found)}")
    return found


def parse_range(text: str, now_ms: int, tell: Tell | None = None) -> TimeRange:
    """``A..B``, ``A..``, ``..B``. A single time is a beginning. UsageError as from ``time_range``."""
    text = text.strip()
    if not text.replace(RANGE, "").strip():
        raise UsageError(f"{text!r} is not a time range", hint=_RANGES)
    return time_range(text, None, now_ms, option="", tell=tell)


def time_range(
    begin: str | None,
    end: str | None,
    now_ms: int,
    option: str = "--since",
    end_option: str = "--until",
    *,
    tell: Tell | None = None,
    spellings: Spellings = STORED,
) -> TimeRange:
    """The range from ``option`` to ``end_option``; the first alone may also be a range. ``tell`` is told the instant
    where a text could have meant another one. UsageError for what is no time, for a range that ends before it begins,
    and for one that has not begun."""
    if end is not None and RANGE in end:
        raise UsageError(f"{end_option} {end} is a range", hint=f"{option} takes one: {option} {end}")
    if begin is not None and RANGE in begin:
        if end is not None:
            raise UsageError(f"{option} is a range already: leave out {end_option}")
        first, _, second = begin.strip().partition(RANGE)
        begin, end, end_option = first.strip() or None, second.strip() or None, option
    found: list[int | None] = []
    for name, text in ((option, begin), (end_option, end)):
        plus_from_ms = found[0] if found else None
        found.append(_named_time(name, text, now_ms, plus_from_ms, tell, spellings))
    check_order(found[0], found[1], now_ms)
    return TimeRange(found[0], found[1])


def check_order(begin_ms: int | None, end_ms: int | None, now_ms: int) -> None:
    """UsageError for a range of stored messages that ends before it begins, and for one that has not begun."""
    if begin_ms is not None and begin_ms > now_ms:
        hint = f"Nothing is stored there: it is {iso_local(now_ms)} now."
        raise UsageError(f"the range begins in the future, at {iso_local(begin_ms)}", hint=hint)
    if begin_ms is not None and end_ms is not None and end_ms < begin_ms:
        raise UsageError(f"the range from {iso_local(begin_ms)} to {iso_local(end_ms)} ends before it begins")


def reading(text: str, found_ms: int) -> str | None:
    """``text`` with the instant that it means, if a user may have meant another one: a duration without a sign, a time
    of day, a bare number of ms in 1970, and a local time that the clocks skipped or showed twice. None if it can only
    mean one."""
    text, said = text.strip(), f"{text.strip()} is {iso_local(found_ms)}"
    is_duration = _signed_duration(text) is not None
    if (is_duration and text[0] not in "+-") or _CLOCK.fullmatch(text):
        return said
    if _BARE.fullmatch(text):
        return said if 0 < found_ms < _MS_OF_1970 else None
    if is_duration or text.startswith("@") or text.lower() == "now":
        return None
    moment = _parse_mqadmin(text) if "#" in text else _parse_iso(text, STORED)
    if moment.tzinfo is not None or _epoch_ms(moment.replace(fold=1)) == found_ms:
        return None
    is_skipped = moment.astimezone(UTC).astimezone().replace(tzinfo=None) != moment
    return f"{said}: the clocks {'skipped it' if is_skipped else 'showed it twice'}"


def parse_duration(text: str) -> int | None:
    """``10m``, ``-1h30m`` in ms. None for anything but a duration."""
    found = _DURATION.fullmatch(text)
    if not found:
        return None
    sign, parts = found.groups()
    total_ms = sum(int(count) * _UNIT_MS[unit] for count, unit in _DURATION_PART.findall(parts))
    return -total_ms if sign == "-" else total_ms


def _signed_duration(text: str) -> int | None:
    """The distance from now: without a sign it is in the past, because what is looked for was stored. None for anything
    but a duration."""
    aged = _AGE.fullmatch(text)
    if aged is not None and aged.group(1)[0] not in "+-":
        text = aged.group(1)
    length_ms = parse_duration(text)
    return length_ms if length_ms is None or text[0] in "+-" else -length_ms


def _named_time(
    option: str, text: str | None, now_ms: int, plus_from_ms: int | None, tell: Tell | None, spellings: Spellings
) -> int | None:
    """The time of an option, which errors and remarks name."""
    if text is None:
        return None
    named = f"{option} " if option else ""
    try:
        found_ms = parse_mqadmin_time(text, now_ms, plus_from_ms=plus_from_ms, spellings=spellings)
    except UsageError as error:
        raise UsageError(f"{named}{error}", hint=error.hint) from None
    remark = reading(text, found_ms)
    if plus_from_ms is not None and text.strip().startswith("+"):
        remark = f"{text.strip()} after the beginning is {iso_local(found_ms)}"
    if remark is not None and tell is not None:
        tell(f"{named}{remark}")
    return found_ms


def _epoch(digits: str) -> int:
    factor, divisor = next((factor, divisor) for most, factor, divisor in _DIGITS_MAX_BY_UNIT if len(digits) <= most)
    return int(digits) * factor // divisor


def _parse_mqadmin(text: str) -> datetime:
    found = _MQADMIN.fullmatch(text)
    if not found:
        raise UsageError(f"{text!r} is not a time", hint="mqadmin's form is yyyy-MM-dd#HH:mm:ss:SSS.")
    year, month, day, hour, minute, second, millisecond = (int(part) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, millisecond * 1000)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a time: {error}") from None


def _parse_iso(text: str, spellings: Spellings) -> datetime:
    # fromisoformat also takes eight digits as a date, so "20260131", or an epoch with a forgotten @, would pass.
    if text[:1] in _NO_MINUS and text:
        hint = f"Write a minus, -{text[1:]}: its first character is U+{ord(text[0]):04X}."
        raise UsageError(f"{text!r} is not a time", hint=hint)
    if not re.match(r"[0-9]{4}-", text):
        raise UsageError(f"{text!r} is not a time", hint=spellings.advice)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time", hint=spellings.advice) from None


def _parse_clock(text: str, now_ms: int, spellings: Spellings) -> int:
    """The last time that the clock showed ``text``."""
    try:
        shown = time.fromisoformat(text if text[2] == ":" else f"0{text}")
    except ValueError:
        raise UsageError(f"{text!r} is not a time", hint=spellings.advice) from None
    day = datetime.fromtimestamp(now_ms // 1000, UTC).astimezone(shown.tzinfo).date()
    found = _local_ms(datetime.combine(day, shown), text, spellings)
    return found if found <= now_ms else _epoch_ms(datetime.combine(day - timedelta(days=1), shown))


def _local_ms(moment: datetime, text: str, spellings: Spellings) -> int:
    if spellings.needs_zone and moment.tzinfo is None:
        raise UsageError(f"{text!r} has no zone", hint=f"Write {text}Z for UTC, or {text}+01:00.")
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
