"""What is asked of the operating system: a clock for promises to other machines, such as leases, which do not wait
while this one sleeps; one for the ages of what others have said; and whether files have changed, which some file
systems do not report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping


def boot_ms() -> int:
    """A clock that is never set, and continues while the machine sleeps. On Linux, ``time.monotonic`` and trio's clock
    stand still then."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def steady_clock() -> Callable[[], int]:
    """A clock in milliseconds: the time when it was made, and what has passed since without the machine's sleep.
    Nobody sets it. A clock that was wrong and is put right makes nothing old by it, and nothing young for ever."""
    began_ns = time.time_ns() - time.monotonic_ns()
    return lambda: (began_ns + time.monotonic_ns()) // 1_000_000


WATCH_INTERVAL_S = 0.5
"""The interval of Apache's ``FileWatchService``."""

Stamps = Mapping[str, tuple[int, int, int] | None]
"""By path; None for a missing file."""


def stamps(paths: Iterable[str]) -> Stamps:
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Changes when the file, or the target of its link, does."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
