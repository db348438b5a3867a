"""What a slave costs: a master and a slave of ours, compared with a master and a slave of Apache's.

In the first rows a send is answered when both have the message (SYNC_MASTER with ``inSyncReplicas=2``), in the others
when the master has it (ASYNC_MASTER). A row ends when the slave has everything.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from bench.harness import table
from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Load, seed
from bench.harness.rows import Row, row
from bench.harness.servers import ours
from bench.harness.table import Line
from bench.replicas.pairs import MASTERS, pair

RATIO_AT_LEAST = 1.5

ROWS = ("send 1 x 1, 128 B", "send 64 x 1, 128 B", "send 4 x 64, 128 B")

BOTH_HAVE_IT = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}


def take(load: Load, extent: Extent) -> tuple[list[Line], list[Figure]]:
    names = [name for name in MASTERS if extent.with_apache or name == "ours"]
    lines = []
    for what, settings in (("copied", BOTH_HAVE_IT), ("written", {})):
        with ExitStack() as stack:
            brokers = [stack.enter_context(pair(name, settings)) for name in names]
            if not settings:
                brokers.append(stack.enter_context(ours(name="alone")))
            for broker in brokers:
                seed(broker)
            lines += table.take(load, brokers, rows(what), extent.rounds, extent.seconds, base=names[0])
    return lines, [cost_of_a_slave(lines)]


def rows(what: str) -> list[Row]:
    return [replace(row(name), name=f"{name}, {what}", ratio_at_least=RATIO_AT_LEAST) for name in ROWS]


def cost_of_a_slave(lines: list[Line]) -> Figure:
    """Has no bar: the difference is smaller than the scatter of such rows, and for Apache the JIT compiler makes it
    arbitrary."""
    name = f"{ROWS[1]}, written"
    cpu_us = {line["broker"]: line["cpu_us"] for line in lines if line["row"] == name}
    return Figure(
        "master's CPU a message, with a slave", "us", cpu_us["ours"], cpu_us["alone"], "ours alone; scatters, no bar"
    )
