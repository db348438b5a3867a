"""One broker under one row of load: rate, latencies, CPU and memory. The load comes from ``load.c``, which costs about
a microsecond of CPU a request and is compiled on first use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rows import LARGE, SMALL, Row, send
from rmqclient.admin import AdminClient
from rmqproto.codes import ResponseCode
from rmqproto.command import FrameReader
from rmqproto.errors import RefusedError

SEED_MESSAGES = 64
DRAIN_TIMEOUT_S = 60


@dataclass(frozen=True)
class Broker:
    """A broker under test; ``pid`` gives CPU and memory."""

    name: str
    port: int
    pid: int
    namesrv_addr: str = ""
    """Empty where it has none."""

    @property
    def host_port(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class Load:
    """The compiled load generator, in a directory of its own until ``close``."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rmq-bench-")
        self._program = Path(self._folder.name, "load")
        source = Path(__file__).with_name("load.c")
        subprocess.run(["gcc", "-O2", "-o", str(self._program), str(source)], check=True)

    def close(self) -> None:
        self._folder.cleanup()

    def run(self, broker: Broker, row: Row, seconds: float) -> dict[str, Any]:
        """One measurement. RuntimeError where the broker closes a connection or stops answering."""
        frame = Path(self._folder.name, "frame")
        frame.write_bytes(row.frame)
        arguments = [str(broker.port), str(row.connections), str(row.window), str(seconds), str(frame)]
        cpu_before_s, before_s = cpu_s(broker.pid), time.monotonic()
        done = subprocess.run([str(self._program), *arguments], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{broker.name}, {row.name}: {done.stderr.strip()}")
        figures: dict[str, Any] = json.loads(done.stdout)
        # Indexes put off are not indexes saved: what the broker still has to do counts as part of the row.
        figures["drain_s"] = drain_s(broker) if row.stores else 0.0
        figures["messages_per_s"] = figures["per_s"] * row.messages * seconds / (seconds + figures["drain_s"])
        figures["cores"] = (cpu_s(broker.pid) - cpu_before_s) / (time.monotonic() - before_s)
        figures["rss_mb"] = rss_mb(broker.pid)
        return figures


def seed(broker: Broker) -> None:
    """Makes the topics, by automatic creation, and gives pulls something to find. RuntimeError if a send is refused.

    The frames are those of the rows, on a bare socket: the bare loop knows no others.
    """
    answers = FrameReader()
    with socket.create_connection(broker.host_port, timeout=10) as sock:
        for topic, size_bytes in ((SMALL, 128), (LARGE, 1024)):
            for _ in range(SEED_MESSAGES):
                sock.sendall(send(topic, b"x" * size_bytes))
                while not (answer := answers.feed(sock.recv(4096))):
                    pass
                if answer[0].code != ResponseCode.SUCCESS:
                    raise RuntimeError(f"{broker.name}: a send is answered with {answer[0].code} {answer[0].remark}")


def drain_s(broker: Broker) -> float:
    """Seconds until the broker has dispatched all that it stored; 0 where it does not say."""
    started_s = time.monotonic()
    with AdminClient("127.0.0.1:1") as admin:
        while time.monotonic() - started_s < DRAIN_TIMEOUT_S:
            try:
                behind = admin.broker_runtime_info(broker.address).get("dispatchBehindBytes", "0")
            except RefusedError:
                break
            if int(behind) <= 0:
                break
            time.sleep(0.02)
    return time.monotonic() - started_s


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))
