"""Servers forked from a process that has imported ``rmqserver``: each costs 0.05 s of CPU, a new interpreter 0.3 s. A
server runs the same ``main``, with the arguments, environment and folder of the test, in a session of its own.
``tests/rmqserver/process/test_server.py`` starts the program as its users do.

A test run asks its nursery for a server. The nursery forks a keeper, which forks the server, sends its pid and finally
its exit status:

    test run ── nursery ─┬─ keeper ── server
                         └─ keeper ── server

Each process gets SIGTERM when its parent dies, so none outlives a killed test run.
"""

import atexit
import ctypes
import functools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmqserver.store.disk.disk import DiskUsage, OsDisk

ROOT = Path(__file__).parents[2]
PR_SET_PDEATHSIG = 1
REQUEST_MAX_BYTES = 1 << 17
TOLD = struct.Struct("i")
"""What a keeper sends: the pid, then the exit status as ``subprocess`` gives it."""


class WarmProcess:
    """The part of ``subprocess.Popen`` that the tests of servers need. The caller closes ``stdout``."""

    def __init__(self, args: Sequence[str], log_fd: int):
        """Runs ``rmqserver ARGS`` with its standard error in ``log_fd``, which the caller closes."""
        read_fd, write_fd = os.pipe()
        self._keeper, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps({"args": list(args), "environment": dict(os.environ), "folder": os.getcwd()}).encode()
        assert len(request) <= REQUEST_MAX_BYTES
        with theirs:
            socket.send_fds(_nursery(), [request], [write_fd, log_fd, theirs.fileno()])
        os.close(write_fd)
        self.stdout = os.fdopen(read_fd, "rb")
        self.returncode: int | None = None
        self.pid = self._told()

    def _told(self) -> int:
        data = self._keeper.recv(TOLD.size)
        if not data:
            raise RuntimeError("the keeper of a server was killed")
        return int(TOLD.unpack(data)[0])

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout_s: float | None = None) -> int:
        """TimeoutExpired if it still runs after the timeout."""
        if self.returncode is None:
            self._keeper.settimeout(timeout_s)
            try:
                self.returncode = self._told()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"server {self.pid}", timeout_s or 0) from None
            self._keeper.close()
        return self.returncode

    def send_signal(self, sig: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _nursery() -> socket.socket:
    """The socket that takes requests. Each test run, or xdist worker, has its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_processes", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )

    @atexit.register
    def end() -> None:
        ours.close()
        nursery.wait()

    return ours


# --- in the nursery --------------------------------------------------------------------------------------------------


def _serve_requests(control: socket.socket) -> list[str]:
    """Returns in each new server, with its arguments. Ends the nursery when the test run has ended."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers leave no zombies behind
    while True:
        request, fds, _, _ = socket.recv_fds(control, REQUEST_MAX_BYTES, 3)
        if not request:
            sys.exit()
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _keep(json.loads(request), *fds)
        for fd in fds:
            os.close(fd)


def _keep(request: dict[str, Any], out_fd: int, log_fd: int, keeper_fd: int) -> list[str]:
    die_with_parent()
    pid = os.fork()
    if pid == 0:
        os.close(keeper_fd)
        die_with_parent()
        return _become(request, out_fd, log_fd)
    os.close(out_fd)
    os.close(log_fd)
    os.write(keeper_fd, TOLD.pack(pid))
    _, status = os.waitpid(pid, 0)
    os.write(keeper_fd, TOLD.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(request: dict[str, Any], out_fd: int, log_fd: int) -> list[str]:
    """Makes this process look like a newly started one. Returns its arguments."""
    os.setsid()
    for fd, place in ((out_fd, 1), (log_fd, 2)):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    args: list[str] = request["args"]
    return args


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def have_room() -> None:
    """Servers see a disk that is at most half full, whatever this machine's disk holds: above 75 % a broker deletes
    early and the tools warn, and at 90 % it takes no messages."""
    real_usage = OsDisk.usage

    def usage(self: OsDisk, path: str) -> DiskUsage:
        real = real_usage(self, path)
        return DiskUsage(min(real.used_bytes, real.usable_bytes), real.usable_bytes)

    OsDisk.usage = usage  # type: ignore[method-assign]


if __name__ == "__main__":
    import rmqserver.broker.broker
    import rmqserver.broker.registration
    import rmqserver.namesrv.nameserver
    import rmqserver.process.server  # noqa: F401
    from rmqserver.program import run

    have_room()
    sys.exit(run(_serve_requests(socket.socket(fileno=int(sys.argv[1])))))
