"""``make bench``: Apache's broker, ours, and the bare loop under the same load, in one run.

The brokers take turns, round by round, so that a noisy machine hurts them alike; medians are shown, and ratios against
Apache. A row with answers other than success is marked, and its figures do not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.measure import Broker, Load, seed
from bench.rows import Row, rows
from bench.servers import apache, ceiling, ours

COLUMNS = ("messages/s", "ratio", "p50 us", "p99 us", "p99.9 us", "drain s", "cores", "RSS MB")


def main() -> int:
    parser = argparse.ArgumentParser(description="Brokers side by side under the same load, in one run.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement, after half a second of warm-up")
    parser.add_argument("--only", action="append", help="only rows whose name has this in it")
    parser.add_argument("--without-apache", action="store_true", help="ratios are then against the bare loop")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    wanted = [row for row in rows() if not options.only or any(part in row.name for part in options.only)]
    with ExitStack() as stack:
        load = Load()
        stack.callback(load.close)
        brokers = [] if options.without_apache else [stack.enter_context(apache())]
        brokers += [stack.enter_context(ours()), stack.enter_context(ceiling())]
        for broker in brokers:
            seed(broker)
        results = measure(load, brokers, wanted, options.rounds, options.seconds)
    table = summarise(brokers, wanted, results)
    show(table)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))
    return 1 if any(line["errors"] for line in table) else 0


Results = dict[tuple[str, str], list[dict[str, Any]]]


def measure(load: Load, brokers: list[Broker], wanted: list[Row], rounds: int, seconds: float) -> Results:
    results: Results = {}
    for _ in range(rounds):
        for row in wanted:
            for broker in brokers:
                results.setdefault((row.name, broker.name), []).append(load.run(broker, row, seconds))
    return results


def summarise(brokers: list[Broker], wanted: list[Row], results: Results) -> list[dict[str, Any]]:
    """Medians by row and broker, with the ratio against Apache (the bare loop where Apache is left out)."""
    base = "apache" if any(broker.name == "apache" for broker in brokers) else "bare loop"
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


def show(table: list[dict[str, Any]]) -> None:
    print(f"{'row':28} {'broker':10} " + " ".join(f"{column:>10}" for column in COLUMNS))
    for line in table:
        cells = (
            f"{line['messages_per_s']:.0f}", f"{line['ratio']:.2f}", f"{line['p50_us']:.0f}", f"{line['p99_us']:.0f}",
            f"{line['p999_us']:.0f}", f"{line['drain_s']:.2f}", f"{line['cores']:.2f}", f"{line['rss_mb']:.0f}",
        )  # fmt: skip
        note = f"  {line['errors']} ERRORS" if line["errors"] else ""
        print(f"{line['row']:28} {line['broker']:10} " + " ".join(f"{cell:>10}" for cell in cells) + note)


if __name__ == "__main__":
    raise SystemExit(main())
