"""Numbers, ages and times as the screens write them: of fixed form, the same in every table. Unknown is a dash."""

from __future__ import annotations

import time

from rmqadmin.times import TIMESTAMP_MAX_MS

UNKNOWN = "-"
_MS_PER_S = 1000


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def rate(per_s: float | None) -> str:
    return UNKNOWN if per_s is None else f"{per_s:,.1f}"


def percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio * 100:.1f}%"


def duration(length_ms: int | None) -> str:
    """``850 ms``, ``12 s``, ``3m05s``, ``4h12m``, ``3d04h``."""
    if length_ms is None:
        return UNKNOWN
    if length_ms < _MS_PER_S:
        return f"{max(0, length_ms)} ms"
    seconds = length_ms // _MS_PER_S
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h"


def moment(timestamp_ms: int | None) -> str:
    """Local time to the second; the millisecond and the zone are in the message's own screen."""
    if not timestamp_ms or timestamp_ms < 0:
        return UNKNOWN
    if timestamp_ms > TIMESTAMP_MAX_MS:
        return f"@{timestamp_ms}"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp_ms // _MS_PER_S))


def size(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} B"
    amount = size_bytes / 1024
    for unit in ("KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def perm_marks(perm: int | None) -> str:
    """R, W and X (inherit), a dot for what is not permitted."""
    if perm is None:
        return UNKNOWN
    return "".join(mark if perm & bit else "." for mark, bit in PERM_BITS.items())


PERM_BITS = {"R": 4, "W": 2, "X": 1}
