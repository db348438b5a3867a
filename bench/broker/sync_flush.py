"""SYNC_FLUSH with 64 synchronous producers, compared with our own rate without it, and with Apache's SYNC_FLUSH."""

from __future__ import annotations

from contextlib import ExitStack

from bench.harness import table
from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Load, seed
from bench.harness.rows import row
from bench.harness.servers import apache, ours
from bench.harness.table import Line

ROW = "send 64 x 1, 128 B"
OF_ASYNC = 0.5


def take(load: Load, extent: Extent) -> tuple[list[Line], list[Figure]]:
    with ExitStack() as stack:
        brokers = [stack.enter_context(apache(sync=True))] if extent.with_apache else []
        brokers += [stack.enter_context(ours()), stack.enter_context(ours(sync=True))]
        for broker in brokers:
            seed(broker)
        found = table.take(load, brokers, [row(ROW)], extent.rounds, extent.seconds, base="ours")
    per_s = {line["broker"]: line["messages_per_s"] / 1000 for line in found}
    errors = sum(line["errors"] for line in found)
    name, unit = f"SYNC_FLUSH, {ROW}", "k/s"
    own = "our own ASYNC_FLUSH"
    figures = [Figure(name, unit, per_s["ours, sync"], per_s["ours"], own, ratio_at_least=OF_ASYNC, errors=errors)]
    if extent.with_apache:
        beside = per_s["apache, sync"]
        figures.append(Figure(name, unit, per_s["ours, sync"], beside, "Apache's SYNC_FLUSH", errors=errors))
    return found, figures
