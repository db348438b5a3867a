"""Child processes of the tests. Each is ended by its own pid, and dies with the test run even if that is killed."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rmqadmin.testing.server_process import DIE_WITH_PARENT

POLL_INTERVAL_S = 0.02
END_TIMEOUT_S = 60  # a broker that flushes on SIGTERM; SIGKILL follows
PORTS_APART = 10
PORT_RANGE = (12_000, 32_000)  # below the range from which Linux takes the ports of outgoing connections
_reserved: list[socket.socket] = []
"""They live as long as this process, and so do its ports."""


def start_server(command: Sequence[str], log: Path, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a program that writes to ``log`` and gets SIGTERM when this process dies. The caller calls ``end``."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-S", "-c", DIE_WITH_PARENT, *command],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_until_ready(
    name: str, process: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool], timeout_s: float
) -> None:
    """Return once ``ready()``; RuntimeError with the end of the log if the process ends first or takes too long."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if ready():
            return
        if process.poll() is not None:
            break
        time.sleep(POLL_INTERVAL_S)
    tail = log.read_text(errors="replace")[-4000:]
    raise RuntimeError(f"{name} is not ready after {timeout_s:g} s (exit status {process.poll()}):\n{tail}")


def end(process: subprocess.Popen[bytes], sig: signal.Signals = signal.SIGTERM) -> int:
    """Signal one process, wait for it, and return its exit status; SIGKILL if it does not end in time."""
    if process.poll() is None:
        process.send_signal(sig)
    try:
        return process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def free_ports() -> tuple[int, int]:
    """A nameserver port and a broker port; the broker's neighbours (port - 2: fast listener, port + 1: HA) are free.
    No other call gives them, in this process or another, as long as this one lives. For servers that restart on the
    same port: a port from port 0 may belong to another connection by the time of the restart."""
    found: list[int] = []
    first = random.randrange(PORT_RANGE[0], PORT_RANGE[1] - 2000, PORTS_APART)
    for port in range(first, PORT_RANGE[1], PORTS_APART):
        if all(_is_free(port + i) for i in range(-2, 2)) and _reserve(port):
            found.append(port)
            if len(found) == 2:
                return found[0], found[1]
    raise OSError("no free ports")


def _reserve(port: int) -> bool:
    """Whether nobody else has the name that stands for this port and its neighbours."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0rmqadmin-tests-{port}")  # without a file: it goes with its process, however that ends
    except OSError:
        name.close()
        return False
    _reserved.append(name)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as s:
        s.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # SO_REUSEADDR as the servers set it: a port in TIME_WAIT is free
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
