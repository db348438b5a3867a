"""A real Apache controller, and brokers of either kind in one set under it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from tests.support.processes import end, free_ports, start_server, wait_until_ready
from tests.support.servers import Server
from tests.support.wire import Wire

from .apache import BROKER_JVM, SHORT_LIVED, ApacheBroker, java_command
from .cluster import SETTINGS

READY_TIMEOUT_S = 120
CONTROLLER_MODE = {
    "enableControllerMode": "true", "allAckInSyncStateSet": "true", "mappedFileSizeCommitLog": str(1 << 18),
    "brokerIP2": "127.0.0.1", "slaveReadEnable": "true",
}  # fmt: skip


class Controller(Protocol):
    """One that is alone, and the nameserver of its brokers."""

    @property
    def namesrv_addr(self) -> str: ...
    @property
    def addr(self) -> str: ...


class ApacheController:
    """One that is alone, with a nameserver in its process: started on entry, ended on exit."""

    def __init__(self, work: Path):
        self.work = work
        namesrv_port, port = free_ports()
        self.namesrv_addr, self.addr = f"127.0.0.1:{namesrv_port}", f"127.0.0.1:{port}"

    def __enter__(self) -> Self:
        self.work.mkdir(parents=True)
        settings = {
            "listenPort": self.namesrv_addr.rpartition(":")[2], "enableControllerInNamesrv": "true",
            "kvConfigPath": f"{self.work}/kvConfig.json", "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.addr}", "controllerDLegerSelfId": "n0",
            "controllerStorePath": f"{self.work}/controller", "mappedFileSize": str(16 << 20),
        }  # fmt: skip
        conf, log = self.work / "namesrv.conf", self.work / "out"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        jvm = ("-Xms128m", "-Xmx128m", *SHORT_LIVED)
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        command = java_command(self.work, main, "-c", str(conf), jvm=jvm, logback="namesrv")
        self._process = start_server(command, log, {"ROCKETMQ_HOME": str(self.work)})
        try:
            wait_until_ready(
                "Apache controller", self._process, log,
                lambda: "boot success" in log.read_text(errors="replace") and self._leads(), READY_TIMEOUT_S,
            )  # fmt: skip
        except BaseException:
            end(self._process, signal.SIGKILL)
            raise
        return self

    def _leads(self) -> bool:
        try:
            with Wire(self.addr) as wire:
                return (wire.ask(1005, {}).ext or {}).get("isLeader") == "true"
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        end(self._process, signal.SIGKILL)


class ApacheMember(ApacheBroker):
    """A broker of a set. ``kill`` it, and ``start`` it again."""

    def __init__(
        self,
        work: Path,
        controller: Controller,
        more: Mapping[str, str] | None = None,
        broker_jvm: tuple[str, ...] = BROKER_JVM,
    ):
        settings = {**SETTINGS, **CONTROLLER_MODE, **(more or {}), "controllerAddr": controller.addr}
        super().__init__(work, settings, controller.namesrv_addr, broker_jvm=broker_jvm)


class OurMember:
    """As ``ApacheMember``."""

    def __init__(self, work: Path, controller: Controller, more: Mapping[str, str] | None = None):
        self.work = work
        self._controller = controller
        self._settings = {**SETTINGS, **CONTROLLER_MODE, **(more or {}), "controllerAddr": controller.addr}
        self._port = free_ports()[1]
        self.broker_addr = f"127.0.0.1:{self._port}"
        self.server: Server | None = None

    def start(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        given = [part for setting in self._settings.items() for part in ("--set", "=".join(setting))]
        self.server = Server(
            "broker", "--namesrv", self._controller.namesrv_addr, "--port", str(self._port), "--data",
            self.work / "store", *given, log_file=self.work / "log",
        )  # fmt: skip

    @property
    def broker_pid(self) -> int:
        assert self.server is not None
        return self.server.pid

    def kill(self) -> None:
        if self.server is not None:
            self.server.stop(signal.SIGKILL)
