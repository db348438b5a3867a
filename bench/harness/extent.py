"""How much is measured: everything, or just enough to show that everything runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    rounds: int = 3
    seconds: float = 2
    """The length of each measurement under load, after half a second of warm-up."""
    starts: int = 9
    apache_starts: int = 3
    idle_s: float = 10
    store_s: float = 5
    """How long a store is filled before it is recovered, at some 100 MB/s."""
    recoveries: int = 3
    commands: int = 5
    topics: int = 1000
    timers: int = 1_000_000
    """How many timers are due in one second."""
    deliveries: int = 500
    copied_mb: int = 2000
    """How much a fresh slave copies."""
    failovers: int = 3
    letters: int = 1000
    """How many dead letters `dlq redrive` is measured with."""
    spark_letters: int = 500
    """How many dead letters `spark-replay` is measured with."""
    with_apache: bool = True


QUICK = Extent(
    rounds=1,
    seconds=0.5,
    starts=3,
    apache_starts=1,
    idle_s=2,
    store_s=1,
    recoveries=1,
    commands=1,
    topics=100,
    timers=50_000,
    deliveries=50,
    copied_mb=64,
    failovers=1,
    letters=100,
    spark_letters=50,
)
