"""``make bench``: Apache's broker, ours, and the bare loop under the same load, in one run; transactions, timers,
filters and POP on the first two only. Then the cost of a start, an idle broker, a recovery, and a command, each
compared with Apache or with the bare work.

A row with failed answers is marked, its figures do not count, and the exit status is 1. A missed bar is also marked,
but is no error: the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.broker import (
    brokers,
    cold,
    delivery,
    grpc,
    guarded,
    idle,
    lateness,
    long_polls,
    neighbours,
    recovery,
    special,
    start,
    sync_flush,
    tls,
    topics,
)
from bench.harness import against, figure, table
from bench.harness.extent import QUICK, Extent
from bench.harness.figure import Figure
from bench.harness.measure import Load, seed
from bench.harness.rows import Row, rows
from bench.harness.servers import apache, ceiling, ours
from bench.harness.table import Line
from bench.replicas import copies, failover, fresh_slave
from bench.tools import command_lines, letters, shell_lines

PARTS: dict[str, Callable[[Load, Extent], list[Figure]]] = {
    "start": lambda load, extent: start.take(extent),
    "idle": lambda load, extent: idle.take(extent),
    "long-polls": lambda load, extent: long_polls.take(extent),
    "neighbours": neighbours.take,
    "brokers": brokers.take,
    "cold": lambda load, extent: cold.take(extent),
    "guarded": guarded.take,
    "tls": tls.take,
    "recovery": recovery.take,
    "delivery": lambda load, extent: delivery.take(extent),
    "timers": lambda load, extent: lateness.take(extent),
    "commands": lambda load, extent: command_lines.take(extent),
    "dead-letters": lambda load, extent: letters.take(extent),
    "shell": lambda load, extent: shell_lines.take(extent),
    "topics": lambda load, extent: topics.take(extent),
    "fresh-slave": fresh_slave.take,
    "grpc": lambda load, extent: grpc.take(extent),
    "failover": lambda load, extent: failover.take(extent),
}
"""The parts apart from the four that have rows."""


def main() -> int:
    options = parser().parse_args()
    extent = QUICK if options.quick else Extent()
    if options.without_apache:
        extent = replace(extent, with_apache=False, apache_starts=0)
    asked = {
        name: value
        for name in ("rounds", "seconds", "timers", "copied_mb", "failovers", "letters", "spark_letters")
        if (value := getattr(options, name))
    }
    extent = replace(extent, **asked)
    if options.against is not None:
        return before_and_after(options, extent)
    parts = options.part or (["rows", "special"] if options.only else ["rows", "special", "sync", "copies", *PARTS])
    wanted, wanted_special = wanted_rows(rows(), options.only), wanted_rows(special.rows(), options.only)
    lines: list[Line] = []
    figures: list[Figure] = []
    with ExitStack() as stack:
        load = Load()
        stack.callback(load.close)
        if "rows" in parts and wanted:
            found, more = under_load(load, wanted, extent)
            table.show(found)
            lines, figures = lines + found, figures + more
        if "special" in parts and wanted_special:
            found = special.take(load, wanted_special, extent)
            table.show(found)
            lines += found
        if "sync" in parts:
            found, more = sync_flush.take(load, extent)
            table.show(found)
            lines, figures = lines + found, figures + more
        if "copies" in parts:
            found, more = copies.take(load, extent)
            table.show(found)
            lines, figures = lines + found, figures + more
        for name, take in PARTS.items():
            if name in parts:
                figures += take(load, extent)
    if figures:
        figure.show(figures)
    if options.json:
        options.json.write_text(json.dumps({"rows": lines, "figures": [each.as_dict() for each in figures]}, indent=1))
    return exit_status(lines, figures)


def before_and_after(options: argparse.Namespace, extent: Extent) -> int:
    """Runs ``--against``, which only measures the rows."""
    load = Load()
    try:
        found = against.take(load, options.against.resolve(), wanted_rows(rows(), options.only), extent)
    except against.CheckoutError as error:
        print(f"--against: {error}", file=sys.stderr)
        return 2
    finally:
        load.close()
    against.show(found)
    if options.json:
        options.json.write_text(json.dumps({"against": [each.as_dict() for each in found]}, indent=1))
    return 1 if any(each.errors for each in found) else 0


def wanted_rows(rows: list[Row], only: list[str] | None) -> list[Row]:
    return [row for row in rows if not only or any(part in row.name for part in only)]


def exit_status(lines: list[Line], figures: list[Figure]) -> int:
    errors = sum(line["errors"] for line in lines) + sum(each.errors for each in figures)
    return 1 if errors else 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Speed and cost beside Apache RocketMQ's, in one run.")
    parser.add_argument(
        "--part",
        action="append",
        choices=["rows", "special", "sync", "copies", *PARTS],
        help="only this; may be repeated",
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="only rows whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="as little as shows that everything runs")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="of each measurement, after half a second of warm-up")
    parser.add_argument("--timers", type=int, metavar="COUNT", help="how many timers are due in one second")
    parser.add_argument("--copied-mb", type=int, metavar="MB", help="what a fresh slave gets")
    parser.add_argument("--failovers", type=int, metavar="COUNT", help="how often a master is killed, and hands over")
    parser.add_argument("--letters", type=int, metavar="COUNT", help="dead letters that `dlq redrive` sends again")
    parser.add_argument(
        "--spark-letters", type=int, metavar="COUNT", help="dead letters that `spark-replay` sends again"
    )
    parser.add_argument("--without-apache", action="store_true", help="the rows' ratios are then against the bare loop")
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="another checkout of this project, beside ours: rows only"
    )
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    return parser


def under_load(load: Load, wanted: list[Row], extent: Extent) -> tuple[list[Line], list[Figure]]:
    with ExitStack() as stack:
        brokers = [stack.enter_context(apache())] if extent.with_apache else []
        brokers += [stack.enter_context(ours()), stack.enter_context(ceiling())]
        for broker in brokers:
            seed(broker)
        base = "apache" if extent.with_apache else "bare loop"
        lines = table.take(load, brokers, wanted, extent.rounds, extent.seconds, base)
    after = {line["broker"]: line["rss_mb"] for line in lines}  # of the last row
    name = "standalone, RSS after the rows"
    return lines, [Figure(name, "MB", after["ours"], after.get("apache"), "Apache's broker", at_most=start.RSS_MB)]


if __name__ == "__main__":
    raise SystemExit(main())
