"""What the opening screen shows of brokers, groups and dead letters: the latest numbers, their earlier values, and
their changes in words."""

from __future__ import annotations

import msgspec

from rmqadmin.core.groups.lag_trend import FORETOLD_FROM_MS
from rmqadmin.core.units import duration, rate
from rmqadmin.tui.memory.history import NumberChange

LINE_SAMPLES = 60
"""The number of samples in a sparkline."""

TREND_WITHIN_MS = 300_000
"""How far back a trend looks."""

Line = list[float | None]
"""The last values of a series, for a sparkline."""


class BrokerLine(msgspec.Struct, frozen=True):
    """A broker. ``error`` says that it is gone, or why it does not answer."""

    in_tps: float | None
    in_line: Line
    out_tps: float | None
    out_line: Line
    disk_ratio: float | None
    disk_line: Line
    put_ms: float | None
    put_line: Line
    error: str | None


class WorstLine(msgspec.Struct, frozen=True):
    """A group that is far behind. ``trend`` says how its lag changes."""

    lag_count: int
    lag_ms: int | None
    lag_line: Line
    trend: str
    lacking: tuple[str, ...]


class OverTime(msgspec.Struct, frozen=True):
    """What is known of a row beyond its latest numbers: the last values of some, and how its lag changes."""

    lines: dict[str, Line]
    trend: str = ""


def trend_text(change: NumberChange | None, lag_count: int) -> str:
    """``+12.0/s``, ``-30.0/s, done in 5m12s`` (if it is not nearly done), or ``steady`` if the change is too small to
    show. Empty if it is not known."""
    if change is None:
        return ""
    if rate(abs(change.per_s)) == rate(0):
        return "steady"
    if change.by > 0:
        return f"+{rate(change.per_s)}/s"
    left_ms = lag_count / -change.per_s * 1000
    falls = f"{rate(change.per_s)}/s"
    return falls if left_ms < FORETOLD_FROM_MS else f"{falls}, done in {duration(left_ms)}"
