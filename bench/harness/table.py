"""The table of rows. Brokers take turns under the same load, round by round, so that a noisy machine affects all alike.
The table shows medians, and ratios to one of the brokers.

In its turn, each broker has the machine to itself, as in service. The others are stopped (SIGSTOP): an idle JVM takes a
tenth of a core, and a whole one for some seconds after its start. Their writes are synced to disk first, or the next
broker would pay for them. Memory is also touched first: the first touch of a page costs 10 us on a virtual machine
whose host hands out memory page by page and takes it back, and a broker that writes files always needs new pages.
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

from bench.harness.measure import Broker, Load, cpu_s
from bench.harness.rows import Row

PAUSE_S = 0.3
TOUCHED_BYTES = 1 << 30
SETTLE_S = 30
SETTLED_CORES = 0.25

COLUMNS = ("messages/s", "ratio", "p50 us", "p99 us", "p99.9 us", "drain s", "cores", "RSS MB")

Line = dict[str, Any]
"""The figures of one broker in one row."""


def take(load: Load, brokers: list[Broker], wanted: list[Row], rounds: int, seconds: float, base: str) -> list[Line]:
    """Measures the table. ``base`` is the name of the broker that ratios refer to."""
    table = []
    for row, runs in measure(load, brokers, wanted, rounds, seconds):
        medians = {
            broker: {name: statistics.median(run[name] for run in of_broker) for name in of_broker[0]}
            for broker, of_broker in runs.items()
        }
        for name, figures in medians.items():
            errors = sum(run["errors"] for run in runs[name])
            ratio = figures["messages_per_s"] / medians[base]["messages_per_s"]
            bar = row.ratio_at_least if (name, base) == ("ours", "apache") else None
            table.append({
                "row": row.name, "broker": name, "ratio": ratio, "ratio_at_least": bar, **figures, "errors": errors,
            })  # fmt: skip
    return table


def measure(
    load: Load, brokers: list[Broker], wanted: list[Row], rounds: int, seconds: float
) -> list[tuple[Row, dict[str, list[dict[str, Any]]]]]:
    """For each row, maps a broker's name to its figures of each round. Every second round goes through the brokers
    backwards."""
    for broker in brokers:
        settle(broker)
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {
        row.name: {broker.name: [] for broker in brokers} for row in wanted
    }
    for number in range(rounds):
        for row in wanted:
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                with alone(broker, brokers):
                    runs[row.name][broker.name].append(load.run(broker, row, seconds))
    return [(row, runs[row.name]) for row in wanted]


@contextmanager
def alone(broker: Broker, brokers: list[Broker]) -> Iterator[None]:
    """Stops the other brokers meanwhile."""
    others = [pid for other in brokers if other is not broker for pid in (other.pid, *other.slave_pids)]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    os.sync()
    touch_memory()
    time.sleep(PAUSE_S)  # time to catch up on work from while it was stopped
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def touch_memory() -> None:
    """Makes the host hand out as many free pages as a measurement may need."""
    mmap.mmap(-1, TOUCHED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def settle(broker: Broker) -> None:
    """Waits until a broker that has just started is idle, but at most SETTLE_S."""
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
        if (bar := line["ratio_at_least"]) is not None:
            note += f"  ratio >= {bar:g} {'ok' if line['ratio'] >= bar else 'MISSED'}"
        print(f"{line['row']:28} {line['broker']:12} " + " ".join(f"{cell:>10}" for cell in cells) + note)
