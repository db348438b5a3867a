"""Our own nameserver and broker (``rmqserver standalone``) as a child process, with the interface of ``apache.ApacheRocketMQ``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .processes import end, start_server, wait_until_ready

READY_TIMEOUT_S = 30  # a fraction of a second on an idle machine


class OurRocketMQ:
    """Started on entry, stopped on exit; a clean stop that ends with a status other than 0 is an error."""

    name = "ours"

    def __init__(self, work: Path, settings: Mapping[str, str], *, store_dir: Path | None = None, ports: tuple[int, int] | None = None):
        self.work = work
        self.store_dir = store_dir or work / "store"
        self.ports = ports or (0, 0)
        self.settings = dict(settings)
        self.namesrv_addr = self.broker_addr = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OurRocketMQ:
        self.work.mkdir(parents=True, exist_ok=True)
        ready_file, log = self.work / "ready.json", self.work / "rmqserver.out"
        ready_file.unlink(missing_ok=True)
        command = [
            sys.executable, "-m", "rmqserver", "standalone", "--data", str(self.store_dir), "--ready-file", str(ready_file),
            "--namesrv-port", str(self.ports[0]), "--port", str(self.ports[1]),
        ]  # fmt: skip
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self._process = process = start_server(command, log)
        try:
            wait_until_ready("rmqserver", process, log, lambda: _whole_line(ready_file), READY_TIMEOUT_S)
        except BaseException:
            end(process, signal.SIGKILL)
            raise
        ready = json.loads(ready_file.read_text())
        self.namesrv_addr, self.broker_addr = ready["namesrv_addr"], ready["broker_addr"]
        self.ports = tuple(int(address.rpartition(":")[2]) for address in (self.namesrv_addr, self.broker_addr))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and (status := end(process)) != 0:
            log = (self.work / "rmqserver.out").read_text(errors="replace")[-4000:]
            raise RuntimeError(f"rmqserver ended with status {status}:\n{log}")

    def kill(self) -> None:
        """SIGKILL: what a crash leaves."""
        process, self._process = self._process, None
        if process is not None:
            end(process, signal.SIGKILL)


def _whole_line(ready_file: Path) -> bool:
    return ready_file.exists() and ready_file.read_text().rstrip().endswith("}")
