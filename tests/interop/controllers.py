"""Real Apache controllers, and brokers of either kind in one set under them."""

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from tests.support.processes import end, free_ports, start_server, wait_until_ready
from tests.support.servers import Server
from tests.support.wire import Wire

from .apache import BROKER_JVM, QUIET_JVM, SHORT_LIVED, ApacheBroker, java_command
from .cluster import SETTINGS

READY_TIMEOUT_S = 120
CONTROLLER_MODE = {
    "enableControllerMode": "true", "allAckInSyncStateSet": "true", "mappedFileSizeCommitLog": str(1 << 18),
    "brokerIP2": "127.0.0.1", "slaveReadEnable": "true",
}  # fmt: skip


class Controller(Protocol):
    """A controller or a group of them, and their brokers' nameservers. Both addresses are as settings take them:
    several are joined by ``;``."""

    @property
    def namesrv_addr(self) -> str: ...
    @property
    def addr(self) -> str: ...


class ApacheControllers:
    """A group of controllers, each with a nameserver in its process: started on entry, ended on exit. They are numbered
    from 0. ``kill`` one, and ``start`` it again."""

    def __init__(self, work: Path, count: int = 1, more: Mapping[str, str] | None = None):
        self.work = work
        self._more = dict(more or {})
        ports = [free_ports() for _ in range(count)]
        self._namesrv_ports = [namesrv_port for namesrv_port, _ in ports]
        self.addrs = [f"127.0.0.1:{port}" for _, port in ports]
        self.addr = ";".join(self.addrs)
        self.namesrv_addr = ";".join(f"127.0.0.1:{port}" for port in self._namesrv_ports)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            for number in range(len(self.addrs)):
                self.start(number)
            for number, process in self._processes.items():
                log = self._home(number) / "out"
                wait_until_ready(
                    f"Apache controller {number}", process, log,
                    lambda: "boot success" in log.read_text(errors="replace") and self.leader() is not None,  # noqa: B023
                    READY_TIMEOUT_S,
                )  # fmt: skip
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._processes):
            self.kill(number)

    def start(self, number: int) -> None:
        """Starts a controller without waiting for it."""
        home = self._home(number)
        home.mkdir(parents=True, exist_ok=True)
        settings = {
            "listenPort": str(self._namesrv_ports[number]), "enableControllerInNamesrv": "true",
            "kvConfigPath": f"{home}/kvConfig.json", "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": ";".join(f"n{at}-{addr}" for at, addr in enumerate(self.addrs)),
            "controllerDLegerSelfId": f"n{number}", "controllerStorePath": f"{home}/controller",
            "mappedFileSize": str(16 << 20), **self._more,
        }  # fmt: skip
        conf = home / "namesrv.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        jvm = ("-Xms128m", "-Xmx128m", *SHORT_LIVED, *QUIET_JVM)
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        command = java_command(home, main, "-c", str(conf), jvm=jvm, logback="namesrv")
        self._processes[number] = start_server(command, home / "out", {"ROCKETMQ_HOME": str(home)})

    def kill(self, number: int) -> None:
        end(self._processes.pop(number), signal.SIGKILL)

    def leader(self) -> int | None:
        """The number of the controller that claims to lead."""
        return next((number for number in self._processes if self._leads(number)), None)

    def _leads(self, number: int) -> bool:
        try:
            with Wire(self.addrs[number]) as wire:
                return (wire.ask(1005, {}).ext or {}).get("isLeader") == "true"
        except (OSError, EOFError):
            return False

    def _home(self, number: int) -> Path:
        return self.work / f"n{number}"


class ApacheMember(ApacheBroker):
    """A broker of Apache's in a set. ``kill`` it, and ``start`` it again."""

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
    """A broker of ours in a set, with the interface of ``ApacheMember``."""

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
