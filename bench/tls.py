"""Rates by TLS beside Apache's by TLS, and beside our own without. Both servers make a certificate of their own at the
start, as Apache's does by itself, and take the newest version and the ciphers that both sides have."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.extent import Extent
from bench.figure import Figure
from bench.measure import Broker, Load, seed
from bench.rows import row
from bench.servers import FILTERS, apache, standalone
from bench.table import measure

ROWS = ("send 64 x 1, 128 B", "send 64 x 1, 1 KiB", "pull 32, 8 x 1, 128 B")
RATIO = 1.5


def take(plain: Load, extent: Extent) -> list[Figure]:
    """``plain`` is the generator without TLS."""
    with ExitStack() as stack:
        load = Load(with_tls=True)
        stack.callback(load.close)
        brokers = [stack.enter_context(apache())] if extent.with_apache else []
        brokers.append(stack.enter_context(ours_by_tls()))
        for broker in brokers:
            seed(broker)
        wanted = [row(name) for name in ROWS]
        secured = measure(load, brokers, wanted, extent.rounds, extent.seconds)
        unsecured = dict(
            (each.name, runs) for each, runs in measure(plain, brokers[-1:], wanted, extent.rounds, extent.seconds)
        )
    found = []
    for each, runs in secured:
        per_s = {
            name: statistics.median(run["messages_per_s"] for run in of_one) / 1000 for name, of_one in runs.items()
        }
        errors = sum(run["errors"] for of_one in runs.values() for run in of_one)
        name = f"{each.name}, by TLS"
        if extent.with_apache:
            found.append(
                Figure(
                    name, "k/s", per_s["ours"], per_s["apache"], "Apache's by TLS", ratio_at_least=RATIO, errors=errors
                )
            )
        without = statistics.median(run["messages_per_s"] for run in unsecured[each.name]["ours"]) / 1000
        found.append(Figure(name, "k/s", per_s["ours"], without, "ours without", errors=errors))
    return found


@contextmanager
def ours_by_tls() -> Iterator[Broker]:
    """It takes plain connections as well."""
    with (
        tempfile.TemporaryDirectory(prefix="rmq-bench-tls-") as folder,
        standalone(Path(folder), settings=(*FILTERS, "tls.test.mode.enable=true")) as broker,
    ):
        yield replace(broker, name="ours")
