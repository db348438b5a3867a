"""The clock for promises to other machines, such as leases: they do not wait while this machine sleeps."""

from __future__ import annotations

import time


def boot_ms() -> int:
    """A clock that is never set, and continues while the machine sleeps. On Linux, ``time.monotonic`` and trio's clock
    stand still then."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000
