"""Measures one broker under one row of load: rate, latencies, CPU and memory. The load comes from ``load.c``, which
costs about 1 us of CPU a request and is compiled on first use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bench.harness.rows import LARGE, SMALL, Row, send
from rmqclient.admin import AdminClient
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.wire.command import FrameReader

SEED_MESSAGES = 64
PUT_AT_ONCE = 128
ANSWER_TIMEOUT_S = 30
DRAIN_TIMEOUT_S = 60
WARM_UP_S = 0.5
"""The warm-up of ``load.c``."""


@dataclass(frozen=True)
class Broker:
    """A broker under test. ``pid`` is the process whose CPU and memory are measured."""

    name: str
    port: int
    pid: int
    namesrv_addr: str = ""
    """Empty without a nameserver."""
    slave_pids: tuple[int, ...] = ()
    """The processes of slaves that are part of the measurement."""

    @property
    def host_port(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class Load:
    """The compiled load generator, in its own directory until ``close``. ``with_tls``: it only speaks TLS, and
    compiling it needs OpenSSL's headers."""

    def __init__(self, *, with_tls: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rmq-bench-")
        self._program = Path(self._folder.name, "load")
        source = Path(__file__).with_name("load.c")
        tls = ("-DTLS", "-lssl", "-lcrypto") if with_tls else ()
        subprocess.run(["gcc", "-O2", "-o", str(self._program), str(source), *tls], check=True)

    def close(self) -> None:
        self._folder.cleanup()

    def run(self, broker: Broker, row: Row, seconds: float) -> dict[str, Any]:
        """One measurement. RuntimeError if the broker closes a connection or stops answering."""
        frame = Path(self._folder.name, "frame")
        frame.write_bytes(row.frame)
        arguments = [str(broker.port), str(row.connections), str(row.window), str(seconds), str(frame)]
        if row.second:
            second = Path(self._folder.name, "second")
            second.write_bytes(row.second)
            arguments.append(str(second))
        cpu_before_s, before_s = cpu_s(broker.pid), time.monotonic()
        done = subprocess.run([str(self._program), *arguments], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{broker.name}, {row.name}: {done.stderr.strip()}")
        figures: dict[str, Any] = json.loads(done.stdout)
        # Work that a broker defers, such as indexing, is part of the row's cost.
        figures["drain_s"] = drain_s(broker) if row.stores else 0.0
        figures["messages_per_s"] = figures["per_s"] * row.messages * seconds / (seconds + figures["drain_s"])
        used_s = cpu_s(broker.pid) - cpu_before_s
        figures["cores"] = used_s / (time.monotonic() - before_s)
        # The generator's warm-up is not counted, but costs CPU too.
        figures["cpu_us"] = used_s * 1e6 / (figures["per_s"] * row.messages * (seconds + WARM_UP_S))
        figures["rss_mb"] = rss_mb(broker.pid)
        return figures


def seed(broker: Broker) -> None:
    """Creates the topics, by automatic creation, and gives pulls something to find. RuntimeError if a send is refused.

    It sends the rows' frames over a bare socket, because the bare loop understands no others.
    """
    for topic, size_bytes in ((SMALL, 128), (LARGE, 1024)):
        put_all(broker, [send(topic, b"x" * size_bytes)] * SEED_MESSAGES)


def put_all(broker: Broker, frames: Iterable[bytes]) -> None:
    """Sends requests over one connection, PUT_AT_ONCE at a time. RuntimeError if one is refused."""
    rest = iter(frames)
    with socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S) as sock:
        reader = FrameReader()
        while portion := list(islice(rest, PUT_AT_ONCE)):
            sock.sendall(b"".join(portion))
            missing = len(portion)
            while missing:
                for answer in reader.feed(sock.recv(1 << 16)):
                    missing -= 1
                    if answer.code != ResponseCode.SUCCESS:
                        raise RuntimeError(f"{broker.name}: a request is answered with {answer.code} {answer.remark}")


def drain_s(broker: Broker) -> float:
    """Waits until the broker has dispatched everything that it stored, has every timer message on its wheel, and its
    slaves have everything. Returns the seconds; 0 if the broker does not report this."""
    started_s = time.monotonic()
    with AdminClient("127.0.0.1:1") as admin:
        while time.monotonic() - started_s < DRAIN_TIMEOUT_S:
            try:
                info = admin.broker_runtime_info(broker.address)
            except RefusedError:
                break
            is_done = all(int(info.get(behind, "0")) <= 0 for behind in ("dispatchBehindBytes", "timerOffsetBehind"))
            if is_done and (not broker.slave_pids or lag_bytes(admin, broker) == 0):
                break
            time.sleep(0.02)
    return time.monotonic() - started_s


def lag_bytes(admin: AdminClient, master: Broker) -> int | None:
    """The lag of the slave that is furthest behind; None without a slave."""
    return max((link.diff for link in admin.ha_status(master.address).ha_connection_info), default=None)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))
