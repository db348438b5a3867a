"""How fast a fresh slave copies a master's log, and the CPU that this costs the otherwise idle master: ours and
Apache's, each under a controller of its own kind. Without a controller, a fresh slave of an Apache master only gets the
last file of the log.

The disk bounds the copy of a log that is larger than the memory for unwritten pages. So the rate at which the same disk
copies the same files is measured too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Broker, Load, cpu_s, seed
from bench.harness.rows import LARGE, Row, batch_of, send
from bench.replicas.failover import our_controller
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

FILLING = "batch of 32, 4 x 1, 1 KiB"
POLL_S = 0.1
"""The master has to answer each look, and the two cores are busy."""
STALLED_S = 60.0
READ_BYTES = 1 << 20
FIRST = "First"
"""The topic of the first message."""

LARGE_FILES = {"mappedFileSizeCommitLog": str(1 << 30)}
"""The default of both."""
SETS: dict[str, Any] = {
    "ours": (our_controller, partial(OurMember, more=LARGE_FILES)),
    "apache": (ApacheControllers, partial(ApacheMember, more=LARGE_FILES, broker_jvm=BENCHMARK_BROKER_JVM)),
}
"""How to start a controller, and a broker under it."""


@dataclass(frozen=True)
class Copied:
    mb_per_s: float
    cpu_ms_per_mb: float
    """CPU of the master."""
    disk_mb_per_s: float
    """How fast the disk copies the same files."""


def take(load: Load, extent: Extent) -> list[Figure]:
    ours = copy(load, extent, "ours")
    apache = copy(load, extent, "apache") if extent.with_apache else None
    rate, cpu = (apache.mb_per_s, apache.cpu_ms_per_mb) if apache is not None else (None, None)
    name = f"a fresh slave gets {extent.copied_mb:,} MB"
    return [
        Figure(name, "MB/s", ours.mb_per_s, rate, "Apache's", ratio_at_least=RATIO_AT_LEAST),
        Figure(f"{name}, master's CPU", "ms/MB", ours.cpu_ms_per_mb, cpu, "Apache's", ratio_at_most=CPU_RATIO_AT_MOST),
        Figure(name, "MB/s", ours.mb_per_s, ours.disk_mb_per_s, "the disk's, copying the files"),
    ]


def copy(load: Load, extent: Extent, name: str) -> Copied:
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
            load.run(master, filling(), extent.seconds)
        log = work / "first" / "store" / "commitlog"
        in_memory(log)
        with ThreadPoolExecutor(1) as beside:
            copied = beside.submit(acknowledged, master, end)
            fresh.start()
            rate, cpu_ms = copied.result()
        fresh.kill()
        shutil.rmtree(work / "fresh")
        return Copied(rate, cpu_ms, disk_mb_per_s(log, work / "files"))


def filling() -> Row:
    return Row(FILLING, 4, 1, send(LARGE, batch_of(32, 1024), batch=True), 32)


def in_memory(log: Path) -> None:
    """Writes everything to the disk, or the broker that was filled faster would copy while more is written back. Then
    reads the log, because the hosts of some virtual machines take pages out of memory that no process maps. Apache's
    broker maps its log, ours does not."""
    os.sync()
    for each in log_files(log):
        with each.open("rb") as file:
            while file.read(READ_BYTES):
                pass


def log_files(log: Path) -> Iterator[Path]:
    return (each for each in sorted(log.iterdir()) if each.name.isdecimal())


def disk_mb_per_s(log: Path, copy: Path) -> float:
    """Copies the files of the log."""
    copy.mkdir()
    in_memory(log)
    began_s = time.monotonic()
    copied_bytes = 0
    for each in log_files(log):
        shutil.copyfile(each, copy / each.name)
        copied_bytes += each.stat().st_size
    return copied_bytes / 1e6 / (time.monotonic() - began_s)


def takes_messages(admin: AdminClient, addr: str) -> bool:
    try:
        admin.send_message(addr, MessageQueue(FIRST, BROKER_NAME, 0), Message(FIRST, b"first"))
    except RocketMQError:
        return False
    return True


def log_end(admin: AdminClient, broker: Broker) -> int:
    """The log offset of the end of a broker's log."""
    return int(admin.broker_runtime_info(broker.address)["commitLogMaxOffset"])


def acknowledged(master: Broker, end: int) -> tuple[float, float]:
    """The rate in MB/s, and the master's CPU in ms for each MB. Measures from the first bytes that the slave
    acknowledges until it has everything up to the log offset ``end``, so its start and handshake do not count. Asks the
    master, because an Apache slave has half of the log before it answers anybody. RuntimeError if the copy stalls."""
    with AdminClient("127.0.0.1:1") as admin:
        last = began = wait_for_acknowledged(admin, master, 1)
        began_s, began_cpu_s = time.monotonic(), cpu_s(master.pid)
        while last < end:
            last = wait_for_acknowledged(admin, master, last + 1)
        copied_mb = (last - began) / 1e6
        used_ms = (cpu_s(master.pid) - began_cpu_s) * 1000
        return copied_mb / (time.monotonic() - began_s), used_ms / copied_mb


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
