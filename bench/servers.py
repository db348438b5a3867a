"""The servers of the table, each started as its own process on free ports, and ended by its own pid."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Broker
from tests.interop.apache import BENCHMARK_BROKER_JVM, ApacheRocketMQ
from tests.interop.cluster import SETTINGS
from tests.interop.processes import end, free_ports

CEILING = Path(__file__).with_name("ceiling.py")


@contextmanager
def apache(*, sync: bool = False) -> Iterator[Broker]:
    """Real Apache RocketMQ 5.5.0, with a heap of 4 GB and G1, as its own script starts it."""
    settings = {**SETTINGS, "flushDiskType": "SYNC_FLUSH" if sync else "ASYNC_FLUSH"}
    with (
        tempfile.TemporaryDirectory(prefix="rmq-bench-apache-") as folder,
        ApacheRocketMQ(Path(folder), settings, broker_jvm=BENCHMARK_BROKER_JVM) as server,
    ):
        yield Broker("apache", server.ports[1], server.broker_pid)


@contextmanager
def ours(*, sync: bool = False) -> Iterator[Broker]:
    """Our broker, with indexes, statistics and everything else on, and a store on disk."""
    with tempfile.TemporaryDirectory(prefix="rmq-bench-ours-") as folder:
        command = [sys.executable, "-m", "rmqserver", "standalone", "--namesrv-port", "0", "--port", "0"]
        command += ["--data", folder, "--flush", "sync" if sync else "async", "--log-level", "warning"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield Broker("ours, sync" if sync else "ours", int(ready["broker_addr"].rpartition(":")[2]), process.pid)
        finally:
            end(process)  # type: ignore[arg-type]  # text or bytes does not matter to it


@contextmanager
def ceiling() -> Iterator[Broker]:
    """The bare loop."""
    _, port = free_ports()
    with tempfile.TemporaryDirectory(prefix="rmq-bench-ceiling-") as folder:
        command = [sys.executable, str(CEILING), str(port), folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield Broker("bare loop", port, int(process.stdout.readline()))
        finally:
            end(process)  # type: ignore[arg-type]
