"""What a second broker brings on a machine of two cores: pipelined sends to one broker, and to both brokers of
``standalone --brokers 2`` at once, in turns. Each broker has a load generator of its own, and all share the cores, so
the CPU of each is shown: what is missing to twice the rate of one broker is what generators and kernel take."""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Broker, Load, seed
from bench.harness.rows import row
from bench.harness.servers import FILTERS, ROOT, checkout_env, server
from bench.harness.table import alone, settle

ROW = "send 4 x 64, 128 B"
RATIO = 1.6


@dataclass(frozen=True)
class Run:
    per_s: float
    cores: list[float]
    """Of each broker."""
    load_cores: float
    errors: int


def take(load: Load, extent: Extent) -> list[Figure]:
    busy = os.getloadavg()[0]
    with ExitStack() as stack:
        loads = [load, stack.enter_context(closing(Load()))]
        one, two = (stack.enter_context(cluster(count)) for count in (1, 2))
        for broker in [*one, *two]:
            seed(broker)
            settle(broker)
        runs: dict[int, list[Run]] = {1: [], 2: []}
        for number in range(extent.rounds):
            for brokers, others in ((one, two), (two, one))[:: 1 if number % 2 == 0 else -1]:
                with alone(brokers[0], [brokers[0], *others]):
                    runs[len(brokers)].append(run(loads, brokers, extent.seconds))
    rates = {count: statistics.median(each.per_s for each in of_count) for count, of_count in runs.items()}
    errors = sum(each.errors for of_count in runs.values() for each in of_count)
    found = [Figure(f"{ROW}, two brokers", "/s", rates[2], rates[1], "one", ratio_at_least=RATIO, errors=errors)]
    for count, of_count in runs.items():
        middle = sorted(of_count, key=lambda each: each.per_s)[len(of_count) // 2]
        found += [Figure(f"broker {at} of {count}, CPU", "core", cores) for at, cores in enumerate(middle.cores, 1)]
        found.append(Figure(f"load on {count}, CPU", "core", middle.load_cores))
    return [*found, Figure("load average before", "", busy)]


def run(loads: list[Load], brokers: list[Broker], seconds: float) -> Run:
    def used_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before_s, started_s = used_s(), time.monotonic()
    with ThreadPoolExecutor(len(brokers)) as threads:
        done: list[dict[str, Any]] = list(
            threads.map(lambda load, broker: load.run(broker, row(ROW), seconds), loads, brokers)
        )
    return Run(
        sum(each["messages_per_s"] for each in done),
        [each["cores"] for each in done],
        (used_s() - before_s) / (time.monotonic() - started_s),
        sum(each["errors"] for each in done),
    )


@contextmanager
def cluster(count: int) -> Iterator[list[Broker]]:
    """The brokers of one ``standalone --brokers``."""
    with tempfile.TemporaryDirectory(prefix="rmq-bench-brokers-") as folder:
        command = ["standalone", "--brokers", str(count), "--namesrv-port", "0", "--port", "0", "--data", folder]
        command += ["--flush", "async", "--log-level", "warning", *(f"--set={each}" for each in FILTERS)]
        with server(command, env=checkout_env(ROOT), root=ROOT) as (_, ready):
            yield [
                Broker(f"broker {at}", int(each["broker_addr"].rpartition(":")[2]), each["pid"], ready["namesrv_addr"])
                for at, each in enumerate(ready["brokers"], 1)
            ]
