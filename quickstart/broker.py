"""The embedded broker: ``rmqserver standalone`` as its own process, on free ports, with a temporary store."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STOP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class ReadyLine:
    """What the broker reports about itself when it is ready."""

    namesrv_addr: str
    broker_addr: str
    folder: Path
    """A temporary folder, which is deleted when the broker has stopped."""

    ready_ms: int


@contextmanager
def embedded_broker() -> Iterator[ReadyLine]:
    """Starts the broker, and stops it at the end.

    RuntimeError if its exit status is not 0, which means that it did not stop cleanly.
    """
    with tempfile.TemporaryDirectory(prefix="rmq-quickstart-") as folder:
        store = Path(folder, "store")
        command = [sys.executable, "-m", "rmqserver", "standalone", "--namesrv-port", "0", "--port", "0"]
        command += ["--data", str(store), "--flush", "sync", "--log-level", "warning"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the broker did not start: exit status {process.wait()}")
            ready = json.loads(line)
            yield ReadyLine(ready["namesrv_addr"], ready["broker_addr"], Path(folder), ready["ready_ms"])
        finally:
            process.terminate()
            try:
                status = process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise RuntimeError(f"the broker did not stop within {STOP_TIMEOUT_S} s") from None
        if status:
            raise RuntimeError(f"the broker stopped with exit status {status}")
