"""How long ``rmqserver standalone`` takes from its command to its ready line, and how much memory it then has, compared
with Apache's nameserver and broker, which must start one after the other.

Our code is compiled beforehand, like an installed package and like Apache's jars. The first start, which compiles it,
does not count.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import cpu_s, rss_mb
from bench.harness.servers import compiled, standalone
from tests.interop.apache import BENCHMARK_BROKER_JVM, ApacheRocketMQ, classes, jars
from tests.interop.cluster import SETTINGS

READY_MS = 300
RSS_MB = 60


@dataclass(frozen=True)
class Start:
    wall_ms: float
    cpu_ms: float
    rss_mb: float


def take(extent: Extent) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="rmq-bench-start-") as folder:
        started = [ours(Path(folder), number) for number in range(extent.starts + 1)][1:]
        if extent.with_apache:
            jars()
            classes()  # fetching and compiling are not part of a start
        beside = [apache(Path(folder, f"apache-{number}")) for number in range(extent.apache_starts)]

    def figure(name: str, unit: str, field: str, at_most: float | None = None) -> Figure:
        theirs = _median(beside, field) if beside else None
        return Figure(name, unit, _median(started, field), theirs, "Apache's nameserver and broker", at_most=at_most)

    return [
        figure("standalone, process start to ready line, wall", "ms", "wall_ms", READY_MS),
        figure("standalone, process start to ready line, CPU", "ms", "cpu_ms"),
        figure("standalone, RSS when ready", "MB", "rss_mb", RSS_MB),
    ]


def ours(folder: Path, number: int) -> Start:
    """A start with a fresh store."""
    before_s = time.monotonic()
    with standalone(folder / f"ours-{number}", env=compiled(folder)) as broker:
        wall_ms = (time.monotonic() - before_s) * 1000
        return Start(wall_ms, cpu_s(broker.pid) * 1000, rss_mb(broker.pid))


def apache(folder: Path) -> Start:
    before_s = time.monotonic()
    with ApacheRocketMQ(folder, SETTINGS, broker_jvm=BENCHMARK_BROKER_JVM) as server:
        wall_ms = (time.monotonic() - before_s) * 1000
        return Start(wall_ms, sum(map(cpu_s, server.pids)) * 1000, sum(map(rss_mb, server.pids)))


def _median(starts: list[Start], field: str) -> float:
    return float(statistics.median(getattr(start, field) for start in starts))
