"""What a slave costs: pairs of a master and a slave, ours beside Apache's, both of a pair of one kind.

In the first rows a send is answered when both have the message (SYNC_MASTER with ``inSyncReplicas=2``), in the others
when the master has it (ASYNC_MASTER). Until the slave has everything, a row is not over. Then how fast a fresh slave
gets a log, and what of its CPU that costs the master, which has nothing else to do.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import table
from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Broker, Load, cpu_s, seed
from bench.harness.rows import Row, row
from bench.harness.servers import ours
from bench.harness.table import Line
from bench.replicas.failover import our_controller
from bench.replicas.pairs import MASTERS, pair
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from tests.interop.apache import BENCHMARK_BROKER_JVM
from tests.interop.cluster import BROKER_NAME
from tests.interop.controllers import ApacheControllers, ApacheMember, OurMember
from tests.support.servers import until

RATIO_AT_LEAST = 1.5
CPU_RATIO_AT_MOST = round(1 / RATIO_AT_LEAST, 2)

ROWS = ("send 1 x 1, 128 B", "send 64 x 1, 128 B", "send 4 x 64, 128 B")
FILLING = "send 4 x 64, 1 KiB"

BOTH_HAVE_IT = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}

POLL_S = 0.01
STALLED_S = 60.0
FIRST = "First"
"""A topic."""

LARGE_FILES = {"mappedFileSizeCommitLog": str(1 << 30)}
"""As both have it unless they are told otherwise."""
SETS: dict[str, Any] = {
    "ours": (our_controller, partial(OurMember, more=LARGE_FILES)),
    "apache": (ApacheControllers, partial(ApacheMember, more=LARGE_FILES, broker_jvm=BENCHMARK_BROKER_JVM)),
}
"""What makes a controller, and a broker under it."""


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
    return lines, [cost_of_a_slave(lines), *catching_up(load, extent, names)]


def rows(what: str) -> list[Row]:
    return [replace(row(name), name=f"{name}, {what}", ratio_at_least=RATIO_AT_LEAST) for name in ROWS]


def cost_of_a_slave(lines: list[Line]) -> Figure:
    """Without a bar: the difference is less than such rows scatter, and Apache's compiler makes it any number."""
    name = f"{ROWS[1]}, written"
    cpu_us = {line["broker"]: line["cpu_us"] for line in lines if line["row"] == name}
    return Figure(
        "master's CPU a message, with a slave", "us", cpu_us["ours"], cpu_us["alone"], "ours alone; scatters, no bar"
    )


@dataclass(frozen=True)
class Copied:
    mb_per_s: float
    cpu_ms_per_mb: float
    """Of the master."""


def catching_up(load: Load, extent: Extent, names: list[str]) -> list[Figure]:
    copied = {name: copy(load, extent, name) for name in names}
    ours, apache = copied["ours"], copied.get("apache")
    rate, cpu = (apache.mb_per_s, apache.cpu_ms_per_mb) if apache is not None else (None, None)
    name = f"a fresh slave gets {extent.copied_mb:,} MB"
    return [
        Figure(name, "MB/s", ours.mb_per_s, rate, "Apache's", ratio_at_least=RATIO_AT_LEAST),
        Figure(f"{name}, master's CPU", "ms/MB", ours.cpu_ms_per_mb, cpu, "Apache's", ratio_at_most=CPU_RATIO_AT_MOST),
    ]


def copy(load: Load, extent: Extent, name: str) -> Copied:
    """Of a set under a controller: of a plain Apache master a fresh slave gets the last file of the log alone."""
    with ExitStack() as stack, AdminClient("127.0.0.1:1") as admin:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"rmq-bench-{name}-")))
        make_controller, make_member = SETS[name]
        controller = stack.enter_context(make_controller(work / "controller"))
        first, fresh = (make_member(work / each, controller) for each in ("first", "fresh"))
        for member in (first, fresh):
            stack.callback(member.kill)
        first.start()
        until(lambda: takes_messages(admin, first.broker_addr))
        master = Broker(name, int(first.broker_addr.rpartition(":")[2]), first.broker_pid)
        seed(master)
        while (end := log_end(admin, master)) < extent.copied_mb * 1_000_000:
            load.run(master, row(FILLING), extent.seconds)
        os.sync()  # who was filled faster has more that is not on the device yet, and would copy while it is written
        with ThreadPoolExecutor(1) as beside:
            copied = beside.submit(acknowledged, master, end)
            fresh.start()
            return copied.result()


def takes_messages(admin: AdminClient, addr: str) -> bool:
    try:
        admin.send_message(addr, MessageQueue(FIRST, BROKER_NAME, 0), Message(FIRST, b"first"))
    except RocketMQError:
        return False
    return True


def log_end(admin: AdminClient, broker: Broker) -> int:
    """Log offset of the end of a broker's log."""
    return int(admin.broker_runtime_info(broker.address)["commitLogMaxOffset"])


def acknowledged(master: Broker, end: int) -> Copied:
    """From the first bytes that a slave has acknowledged until it has all up to the log offset ``end``, so neither its
    start nor its greeting is in it. The master is asked: an Apache slave has half of a log before it answers anybody.
    RuntimeError if nothing more comes."""
    with AdminClient("127.0.0.1:1") as admin:
        last = began = wait_for_acknowledged(admin, master, 1)
        began_s, began_cpu_s = time.monotonic(), cpu_s(master.pid)
        while last < end:
            last = wait_for_acknowledged(admin, master, last + 1)
        copied_mb = (last - began) / 1e6
        used_ms = (cpu_s(master.pid) - began_cpu_s) * 1000
        return Copied(copied_mb / (time.monotonic() - began_s), used_ms / copied_mb)


def wait_for_acknowledged(admin: AdminClient, master: Broker, at_least: int) -> int:
    """Log offset up to which its slave has it, once that is so far."""
    deadline_s = time.monotonic() + STALLED_S
    while time.monotonic() < deadline_s:
        found = admin.ha_status(master.address).ha_connection_info
        at = max((link.slave_ack_offset for link in found), default=0)
        if at >= at_least:
            return at
        time.sleep(POLL_S)
    raise RuntimeError(f"{master.name}: its slave has not got log offset {at_least} in {STALLED_S} s")
