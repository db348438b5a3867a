"""What a slave costs: pairs of a master and a slave, ours beside Apache's, both of a pair of one kind.

In the first rows a send is answered when both have the message (SYNC_MASTER with ``inSyncReplicas=2``), in the others
when the master has it (ASYNC_MASTER). Until the slave has everything, a row is not over. Then what a message costs the
master more than one without a slave, and how fast a fresh slave gets a log.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

from bench import table
from bench.extent import Extent
from bench.figure import Figure
from bench.measure import Broker, Load, seed
from bench.pairs import MASTERS, pair, wait_until_copied
from bench.rows import Row, row
from bench.servers import ours
from bench.table import Line
from rmqclient.admin import AdminClient
from rmqproto.errors import RocketMQError

RATIO_AT_LEAST = 1.5

ROWS = ("send 1 x 1, 128 B", "send 64 x 1, 128 B", "send 4 x 64, 128 B")
FILLING = "send 4 x 64, 1 KiB"

BOTH_HAVE_IT = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}

POLL_S = 0.01


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
    return lines, [cost_of_a_slave(lines), catching_up(load, extent, names)]


def rows(what: str) -> list[Row]:
    return [replace(row(name), name=f"{name}, {what}", ratio_at_least=RATIO_AT_LEAST) for name in ROWS]


def cost_of_a_slave(lines: list[Line]) -> Figure:
    name = f"{ROWS[1]}, written"
    cpu_us = {line["broker"]: line["cpu_us"] for line in lines if line["row"] == name}
    return Figure("master's CPU a message, with a slave", "us", cpu_us["ours"], cpu_us["alone"], "our master alone")


def catching_up(load: Load, extent: Extent, names: list[str]) -> Figure:
    mb_per_s = {name: copied_mb_per_s(load, extent, name) for name in names}
    beside = mb_per_s.get("apache")
    name = f"a fresh slave gets {extent.copied_mb:,} MB"
    return Figure(name, "MB/s", mb_per_s["ours"], beside, "Apache's", ratio_at_least=RATIO_AT_LEAST)


def copied_mb_per_s(load: Load, extent: Extent, name: str) -> float:
    """From the first bytes that the slave has to the last, so its start is not in it."""
    with ExitStack() as stack, AdminClient("127.0.0.1:1") as admin:
        master = MASTERS[name](stack, {})
        seed(master.broker)
        while (end := log_end(admin, master.broker) or 0) < extent.copied_mb * 1_000_000:
            load.run(master.broker, row(FILLING), extent.seconds)
        slave = master.start_slave(stack)
        while not (first := log_end(admin, slave) or 0):
            time.sleep(POLL_S)
        started_s = time.monotonic()
        while (last := log_end(admin, slave) or 0) < end:
            time.sleep(POLL_S)
        elapsed_s = time.monotonic() - started_s
        wait_until_copied(master.broker)
    return (last - first) / 1e6 / elapsed_s


def log_end(admin: AdminClient, broker: Broker) -> int | None:
    """Log offset of the end of a broker's log; None while it does not answer."""
    try:
        return int(admin.broker_runtime_info(broker.address)["commitLogMaxOffset"])
    except RocketMQError:
        return None
