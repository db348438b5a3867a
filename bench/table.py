"""The table of rows: brokers take turns under the same load, round by round, so that a noisy machine hurts them alike.
Medians are shown, and ratios against one of the brokers."""

from __future__ import annotations

import statistics
from typing import Any

from bench.measure import Broker, Load
from bench.rows import Row

COLUMNS = ("messages/s", "ratio", "p50 us", "p99 us", "p99.9 us", "drain s", "cores", "RSS MB")

Line = dict[str, Any]
"""One row of one broker."""


def take(load: Load, brokers: list[Broker], wanted: list[Row], rounds: int, seconds: float, base: str) -> list[Line]:
    """``base`` is the name of the broker that ratios are against."""
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for row in wanted:
            for broker in brokers:
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


def line_of(table: list[Line], broker: str) -> Line:
    """The first row of a broker; KeyError if it has none."""
    for line in table:
        if line["broker"] == broker:
            return line
    raise KeyError(broker)


def show(table: list[Line]) -> None:
    print(f"{'row':28} {'broker':12} " + " ".join(f"{column:>10}" for column in COLUMNS))
    for line in table:
        cells = (
            f"{line['messages_per_s']:.0f}", f"{line['ratio']:.2f}", f"{line['p50_us']:.0f}", f"{line['p99_us']:.0f}",
            f"{line['p999_us']:.0f}", f"{line['drain_s']:.2f}", f"{line['cores']:.2f}", f"{line['rss_mb']:.0f}",
        )  # fmt: skip
        note = f"  {line['errors']} ERRORS" if line["errors"] else ""
        print(f"{line['row']:28} {line['broker']:12} " + " ".join(f"{cell:>10}" for cell in cells) + note)
