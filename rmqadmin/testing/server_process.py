"""``rmqserver standalone`` as a child process for tests: on any free ports, with a temporary store of small files. It
ends with the process that started it, even if that is killed."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

DIE_WITH_PARENT = "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,15);os.execvp(sys.argv[1],sys.argv[1:])"
"""Run before the real command, in the same process: it gets SIGTERM when its parent dies (prctl 1 = PR_SET_PDEATHSIG).
A ``preexec_fn`` would do the same, but is not safe in a process with threads."""

LOG_TAIL_BYTES = 4000
STOP_TIMEOUT_S = 30

_SMALL = (
    "mappedFileSizeCommitLog=67108864",
    "mappedFileSizeConsumeQueue=600000",
    "maxHashSlotNum=10000",
    "maxIndexNum=40000",
    "diskMaxUsedSpaceRatio=95",
)
"""A test's store lives for minutes. Its size should not depend on the size of the disk."""


class ServerProcess:
    """A running server: started and ready when constructed, stopped on leaving ``with``. Its log goes to ``log_file``.
    Paths in ``args`` count from ``directory``, or from the current one. If a thread constructs it, it also ends with
    that thread, which the system regards as its parent.

    RuntimeError with the end of the log if it does not start. Environment variables that would configure it differently
    (``RMQSERVER_...``) are not passed on.
    """

    def __init__(self, args: Sequence[str], log_file: Path, directory: Path | None = None):
        self.log_file = log_file
        settings = [part for setting in _SMALL for part in ("--set", setting)]
        command = ["-m", "rmqserver", "standalone", "--namesrv-port", "0", "--port", "0"]
        command += ["--test-requests", "on", *settings, *args]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RMQSERVER_")}
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", DIE_WITH_PARENT, sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the tests, which stop the server at their end
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._process.stdout.close()
            raise RuntimeError(f"rmqserver did not start (exit status {status}):\n{self.log_tail()}")
        self._ready: dict[str, Any] = json.loads(line)

    @property
    def namesrv_addr(self) -> str:
        return str(self._ready["namesrv_addr"])

    @property
    def broker_addr(self) -> str:
        return str(self._ready["broker_addr"])

    @property
    def broker_addrs(self) -> list[str]:
        """All of them, with ``--brokers``."""
        return self._ready.get("broker_addrs") or [self.broker_addr]

    @property
    def pid(self) -> int:
        return self._process.pid

    def log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-LOG_TAIL_BYTES:]

    def stop(self) -> int:
        """Stops the server and returns its exit status. May be called again, with the same result."""
        self._process.terminate()
        try:
            status = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
