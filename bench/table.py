"""The table of rows: brokers take turns under the same load, round by round, so that a noisy machine hurts them alike.
Medians are shown, and ratios against one of the brokers.

Each has the machine for itself when its turn comes, as it would have in service: the others are stopped (SIGSTOP), for
a JVM that only waits takes a tenth of a core, and a whole one for some seconds after its start; what they wrote is on
the disk before (sync), or its write-back would be paid for by whoever comes next; and there is memory that was touched
lately. The first touch of a page costs ten microseconds on a virtual machine whose host hands memory out page by page
and takes it back, and who writes files needs new pages all the time.
"""

from __future__ import annotations

import mmap
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.measure import Broker, Load, cpu_s
from bench.rows import Row

PAUSE_S = 0.3
TOUCHED_BYTES = 1 << 30
SETTLE_S = 30
SETTLED_CORES = 0.25

COLUMNS = ("messages/s", "ratio", "p50 us", "p99 us", "p99.9 us", "drain s", "cores", "RSS MB")

Line = dict[str, Any]
"""One row of one broker."""


def take(load: Load, brokers: list[Broker], wanted: list[Row], rounds: int, seconds: float, base: str) -> list[Line]:
    """``base`` is the name of the broker that ratios are against."""
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for broker in brokers:
        settle(broker)
    for _ in range(rounds):
        for row in wanted:
            for broker in brokers:
                with alone(broker, brokers):
                    results.setdefault((row.name, broker.name), []).append(load.run(broker, row, seconds))
    table = []
    for row in wanted:
        medians = {
            broker.name: {
                name: statistics.median(run[name] for run in results[row.name, broker.name])
                for name in results[row.name, broker.name][0]
            }
            for broker in brokers
        }
        for name, figures in medians.items():
            errors = sum(run["errors"] for run in results[row.name, name])
            ratio = figures["messages_per_s"] / medians[base]["messages_per_s"]
            table.append({"row": row.name, "broker": name, "ratio": ratio, **figures, "errors": errors})
    return table


@contextmanager
def alone(broker: Broker, brokers: list[Broker]) -> Iterator[None]:
    """The others stand still."""
    others = [other for other in brokers if other is not broker]
    for other in others:
        os.kill(other.pid, signal.SIGSTOP)
    os.sync()
    touch_memory()
    time.sleep(PAUSE_S)  # for what it had to do itself while it was stopped
    try:
        yield
    finally:
        for other in others:
            os.kill(other.pid, signal.SIGCONT)


def touch_memory() -> None:
    """Leaves as many free pages as a measurement may take, all of them given by the host."""
    mmap.mmap(-1, TOUCHED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def settle(broker: Broker) -> None:
    """Returns when a broker that was just started has nothing more to do, or will never come to rest."""
    for _ in range(SETTLE_S):
        before_s = cpu_s(broker.pid)
        time.sleep(1)
        if cpu_s(broker.pid) - before_s < SETTLED_CORES:
            return


def show(table: list[Line]) -> None:
    print(f"{'row':28} {'broker':12} " + " ".join(f"{column:>10}" for column in COLUMNS))
    for line in table:
        cells = (
            f"{line['messages_per_s']:.0f}", f"{line['ratio']:.2f}", f"{line['p50_us']:.0f}", f"{line['p99_us']:.0f}",
            f"{line['p999_us']:.0f}", f"{line['drain_s']:.2f}", f"{line['cores']:.2f}", f"{line['rss_mb']:.0f}",
        )  # fmt: skip
        note = f"  {line['errors']} ERRORS" if line["errors"] else ""
        print(f"{line['row']:28} {line['broker']:12} " + " ".join(f"{cell:>10}" for cell in cells) + note)
