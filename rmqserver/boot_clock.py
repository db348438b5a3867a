"""The clock of promises to others, who do not wait for a machine that sleeps: leases end by it."""

from __future__ import annotations

import time


def boot_ms() -> int:
    """A clock that is never set, and goes on while the machine sleeps. ``time.monotonic`` and trio's stand still then,
    on Linux."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000
