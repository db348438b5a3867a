"""The servers of the table, each started as its own process on free ports, and ended by its own pid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.harness.measure import Broker
from tests.interop.apache import BENCHMARK_BROKER_JVM, ApacheRocketMQ
from tests.interop.cluster import SETTINGS
from tests.support.processes import end, free_ports

ROOT = Path(__file__).parents[2]
"""This checkout."""

FILTERS = ("enablePropertyFilter=true",)
"""As in ``SETTINGS`` for Apache."""

CEILING = Path(__file__).parents[1] / "ceiling.py"


@contextmanager
def apache(*, sync: bool = False) -> Iterator[Broker]:
    """Real Apache RocketMQ 5.5.0, with a heap of 4 GB and G1, as its own script starts it."""
    settings = {**SETTINGS, "flushDiskType": "SYNC_FLUSH" if sync else "ASYNC_FLUSH"}
    del settings["mappedFileSizeTimerLog"]  # with files for 10,000 timers, most work would be for files, not for timers
    with (
        tempfile.TemporaryDirectory(prefix="rmq-bench-apache-") as folder,
        ApacheRocketMQ(Path(folder), settings, broker_jvm=BENCHMARK_BROKER_JVM) as server,
    ):
        yield Broker("apache, sync" if sync else "apache", server.ports[1], server.broker_pid, server.namesrv_addr)


@contextmanager
def ours(
    *, sync: bool = False, settings: Sequence[str] = (), root: Path = ROOT, name: str = "ours"
) -> Iterator[Broker]:
    """Our broker, with indexes, statistics and everything else enabled, and a store on disk. ``root`` is its checkout;
    ``settings`` are KEY=VALUE."""
    with (
        tempfile.TemporaryDirectory(prefix="rmq-bench-ours-") as folder,
        standalone(
            Path(folder), sync=sync, settings=(*FILTERS, *settings), root=root, env=checkout_env(root)
        ) as broker,
    ):
        yield replace(broker, name=f"{name}, sync" if sync else name)


def checkout_env(root: Path) -> dict[str, str]:
    """An environment in which Python imports our packages from ``root``. They only win over installed ones if the
    working directory is not another checkout."""
    return {**os.environ, "PYTHONPATH": str(root)}


@contextmanager
def standalone(
    store: Path,
    *,
    sync: bool = False,
    settings: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "rmqserver"),
    root: Path | None = None,
) -> Iterator[Broker]:
    """``rmqserver standalone`` on a store that the caller keeps. ``settings`` are KEY=VALUE; ``program`` is what Python
    runs, in the working directory ``root``. The process is ended on exit, unless it has ended before."""
    command = ["standalone", "--namesrv-port", "0", "--port", "0"]
    command += ["--data", str(store), "--flush", "sync" if sync else "async", "--log-level", "warning"]
    command += [part for setting in settings for part in ("--set", setting)]
    with server(command, env=env, program=program, root=root) as (process, ready):
        port = int(ready["broker_addr"].rpartition(":")[2])
        yield Broker("ours", port, process.pid, ready["namesrv_addr"])


@contextmanager
def server(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "rmqserver"),
    root: Path | None = None,
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A server of ours, and its ready line. The process is ended on exit, unless it has ended before."""
    command = [sys.executable, *program, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=root)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        end(process)  # type: ignore[arg-type]  # text or bytes does not matter to it
        if process.stdout is not None:
            process.stdout.close()


def compiled(folder: Path) -> dict[str, str]:
    """An environment in which Python keeps compiled modules below ``folder``, as for an installed package."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


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
