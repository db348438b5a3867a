"""Our own nameserver and broker (``rmqserver standalone``), with the interface of ``apache.ApacheRocketMQ``."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.processes import free_ports
from tests.support.servers import Server


class OurRocketMQ:
    """Our system, started on entry and stopped on exit. It is an error if a clean stop ends with a status other than 0.

    The ports are chosen like those of Apache's, not by the kernel: if an Apache broker takes over the store, it listens
    on the same ports and on their neighbours.
    """

    name = "ours"

    def __init__(
        self,
        work: Path,
        settings: Mapping[str, str],
        *,
        store_dir: Path | None = None,
        ports: tuple[int, int] | None = None,
    ):
        self.work = work
        self.store_dir = store_dir or work / "store"
        self.ports = ports or free_ports()
        self.settings = dict(settings)
        self.namesrv_addr = self.broker_addr = ""
        self._server: Server | None = None

    def __enter__(self) -> Self:
        self.work.mkdir(parents=True, exist_ok=True)
        namesrv_port, port = map(str, self.ports)
        args: list[str | Path] = ["--data", self.store_dir, "--namesrv-port", namesrv_port, "--port", port]
        for key, value in self.settings.items():
            args += ["--set", f"{key}={value}"]
        self._server = server = Server("standalone", *args, log_file=self.work / "rmqserver.log")
        self.namesrv_addr, self.broker_addr = server.namesrv_addr, server.broker_addr
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Sends SIGTERM: the store is left as Apache's broker leaves it."""
        if self._server is not None and (status := self._server.stop()) != 0:
            raise RuntimeError(f"rmqserver ended with status {status}:\n{self._server.log_tail()}")
        self._server = None

    def kill(self) -> None:
        """Sends SIGKILL: the store is left as by a crash."""
        if self._server is not None:
            self._server.stop(signal.SIGKILL)
        self._server = None
