"""What a slave costs: a master and a slave of ours, compared with a master and a slave of Apache's.

In the first rows a send is answered when both have the message (SYNC_MASTER with ``inSyncReplicas=2``), in the others
when the master has it (ASYNC_MASTER). A row ends when the slave has everything. The last part measures how fast a fresh
slave copies a log, and the CPU that this costs the otherwise idle master.
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
"""The topic of the first message."""

LARGE_FILES = {"mappedFileSizeCommitLog": str(1 << 30)}
"""The default of both."""
SETS: dict[str, Any] = {
    "ours": (our_controller, partial(OurMember, more=LARGE_FILES)),
    "apache": (ApacheControllers, partial(ApacheMember, more=LARGE_FILES, broker_jvm=BENCHMARK_BROKER_JVM)),
}
"""How to start a controller, and a broker under it."""


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
    """Has no bar: the difference is smaller than the scatter of such rows, and for Apache the JIT compiler makes it
    arbitrary."""
    name = f"{ROWS[1]}, written"
    cpu_us = {line["broker"]: line["cpu_us"] for line in lines if line["row"] == name}
    return Figure(
        "master's CPU a message, with a slave", "us", cpu_us["ours"], cpu_us["alone"], "ours alone; scatters, no bar"
    )


@dataclass(frozen=True)
class Copied:
    mb_per_s: float
    cpu_ms_per_mb: float
    """CPU of the master."""


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
    """Measures the copy in a set under a controller. Without one, a fresh slave of an Apache master only gets the last
    file of the log."""
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
        os.sync()  # or the broker that was filled faster would copy while more is written back
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
    """The log offset of the end of a broker's log."""
    return int(admin.broker_runtime_info(broker.address)["commitLogMaxOffset"])


def acknowledged(master: Broker, end: int) -> Copied:
    """Measures from the first bytes that the slave acknowledges until it has everything up to the log offset ``end``,
    so its start and handshake do not count. Asks the master, because an Apache slave has half of the log before it
    answers anybody. RuntimeError if the copy stalls."""
    with AdminClient("127.0.0.1:1") as admin:
        last = began = wait_for_acknowledged(admin, master, 1)
        began_s, began_cpu_s = time.monotonic(), cpu_s(master.pid)
        while last < end:
            last = wait_for_acknowledged(admin, master, last + 1)
        copied_mb = (last - began) / 1e6
        used_ms = (cpu_s(master.pid) - began_cpu_s) * 1000
        return Copied(copied_mb / (time.monotonic() - began_s), used_ms / copied_mb)


def wait_for_acknowledged(admin: AdminClient, master: Broker, at_least: int) -> int:
    """Waits until the slave has acknowledged ``at_least``. Returns the acknowledged log offset. RuntimeError after
    STALLED_S."""
    deadline_s = time.monotonic() + STALLED_S
    while time.monotonic() < deadline_s:
        found = admin.ha_status(master.address).ha_connection_info
        at = max((link.slave_ack_offset for link in found), default=0)
        if at >= at_least:
            return at
        time.sleep(POLL_S)
    raise RuntimeError(f"{master.name}: its slave has not got log offset {at_least} in {STALLED_S} s")
