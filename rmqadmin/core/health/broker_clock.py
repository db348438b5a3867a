"""How far a broker's clock is from ours. Brokers do not return the time. They return when they started, and how long
they have been running, in whole seconds (28), both by their own clock."""

from __future__ import annotations

import re
from collections.abc import Mapping

_RUNTIME = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


def broker_time_ms(info: Mapping[str, str]) -> int | None:
    """The broker's time when it answered, in ms since the epoch, up to one second too early. None if it is not
    known."""
    found, boot = _RUNTIME.fullmatch(info.get("runtime", "").strip()), info.get("bootTimestamp", "")
    if found is None or not boot.isdecimal():
        return None
    days, hours, minutes, seconds = map(int, found.groups())
    return int(boot) + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000


def clock_skew_ms(info: Mapping[str, str], asked_ms: int, answered_ms: int) -> int | None:
    """By how many ms the broker's clock is certainly ahead of ours (behind, if negative), given when we asked and when
    we had the answer. 0 if the clock may be right. None if the broker does not say."""
    told_ms = broker_time_ms(info)
    if told_ms is None:
        return None
    if told_ms > answered_ms:
        return told_ms - answered_ms
    return min(0, told_ms + 1000 - asked_ms)
