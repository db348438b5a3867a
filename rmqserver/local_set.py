"""``standalone --replicas``: a set of brokers on one machine, for trying a client. Nameserver and controller are in
this process; each broker is a separate process, so that it can be killed."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
from typing import Any

import trio

from rmqproto.errors import RocketMQError, UsageError
from rmqproto.hosts import PORT_MAX
from rmqserver.auth.auth_settings import AUTH_KEYS
from rmqserver.command_line import Options, ServerPlan, absolute, defaults_of, plan, settings_of
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.tls.settings import TLS_KEYS

log = logging.getLogger(__name__)

PORTS_APART = 10
"""Distance between the ports of brokers: each also uses one port above its own, and one two below."""

AGAIN_S = 3.0
"""Time until a killed broker is started again, as a service manager would do."""

STOP_TIMEOUT_S = 30.0

_SET = {
    "brokerName": "broker-a",
    "allAckInSyncStateSet": "true",
    "checkSyncStateSetPeriod": "500",
}
"""Defaults of the set beside those of a standalone: no message that was acknowledged is lost with the master."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LocalSetPlan:
    replica_count: int
    port: int
    """The first broker's port; 0: each takes any free one."""
    arguments: tuple[str, ...]
    """Added to the command lines of all brokers."""
    root: str | None
    """Directory of the stores. None: a temporary one."""


def plan_local_set(options: Options) -> tuple[ServerPlan, LocalSetPlan]:
    """UsageError for options that a set of brokers cannot have."""
    count = options.replicas
    assert count is not None
    refused = {
        "--seed": options.seed, "--fault": options.faults, "--test-requests": options.test_requests,
        "--metrics-port": options.metrics_port, "--advertise": options.advertise,
    }  # fmt: skip
    for name, value in refused.items():
        if value:
            raise UsageError(f"{name} and --replicas exclude each other: {name} is for a single broker")
    given = settings_of(options)
    if guards := sorted(given.keys() & (TLS_KEYS | AUTH_KEYS)):
        raise UsageError(
            f"{guards[0]} and --replicas: this set is for tests, without TLS and users",
            hint="start nameserver, controller and brokers one by one (docs/controller.md)",
        )
    alone = dataclasses.replace(options, has_broker=False, port=options.namesrv_port, config=None, settings=())
    planned, controller = plan(alone), ControllerConfig()
    ports = {"listenPort": "0"} if options.namesrv_port == 0 else {}
    controller.load({**ports, "bindAddress": planned.listen})
    copies = "2" if count > 2 else "1"  # one may be lost, and the others continue
    usual = {**defaults_of(options), **_SET, "minInSyncReplicas": copies}
    passed = [f"--set={key}={value}" for key, value in usual.items() if key not in given]
    passed += [f"--set={each}" for each in options.settings]
    passed += ["--allow-unknown"] if options.allow_unknown else []
    for flag, value in (("--listen", options.listen), ("--config", options.config), ("--flush", options.flush)):
        if value is not None:
            passed += [flag, value]
    if options.data is None and options.flush is None and "flushDiskType" not in given:
        passed += ["--flush", "async"]
    port = 10911 if options.port is None else options.port
    last = port and port + PORTS_APART * (count - 1) + 1
    if last > PORT_MAX:
        raise UsageError(
            f"--port {port} and --replicas {count}: the last broker would listen on {last}, past {PORT_MAX}"
        )
    made = LocalSetPlan(
        replica_count=count,
        port=port,
        arguments=tuple(passed),
        root=absolute(options.data) if options.data else None,
    )
    return dataclasses.replace(planned, controller=controller), made


class LocalSet:
    """``run`` it as a task, ``stop`` it at the end."""

    def __init__(self, plan: LocalSetPlan, root: str, namesrv_addr: str, controller_addr: str):
        self._plan = plan
        self._root = root
        self._namesrv_addr = namesrv_addr
        self._controller_addr = controller_addr
        self._is_stopping = False
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.brokers: dict[int, dict[str, Any]] = {}
        """The ready line of each broker, by number."""

    async def run(self) -> RocketMQError:
        """Keeps the brokers running. Returns if one does not start, or ends by itself."""
        failure: list[RocketMQError] = []

        async def keep(number: int) -> None:
            failure.append(await self._keep_running(number))
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for number in range(1, self._plan.replica_count + 1):
                nursery.start_soon(keep, number)
        return failure[0]

    async def _keep_running(self, number: int) -> RocketMQError:
        while True:
            process = self._start(number)
            ready = await self._ready(process)
            if ready is not None:
                self.brokers[number] = ready
            status = await _ended(process)
            if self._is_stopping:
                await trio.sleep_forever()
            if status >= 0 or ready is None:
                return RocketMQError(
                    f"broker {number} of the set has ended with status {status}", hint="its log is above"
                )
            log.warning(
                "event=broker-killed number=%d signal=%s again_s=%g", number, signal.Signals(-status).name, AGAIN_S
            )
            await trio.sleep(AGAIN_S)
            if self._is_stopping:
                await trio.sleep_forever()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        port = self._plan.port and self._plan.port + PORTS_APART * (number - 1)
        if number in self.brokers:
            port = int(self.brokers[number]["broker_addr"].rpartition(":")[2])
        command = [
            "broker", "--namesrv", self._namesrv_addr, "--port", str(port), "--data", f"{self._root}/broker-{number}",
            *self._plan.arguments, "--set=enableControllerMode=true", f"--set=controllerAddr={self._controller_addr}",
        ]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RMQSERVER_")}
        self._processes[number] = process = subprocess.Popen(
            [sys.executable, "-m", "rmqserver.with_parent", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the others
        )
        return process

    async def _ready(self, process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
        """The broker's ready line; None if it ended before."""
        assert process.stdout is not None
        line = b""
        async with trio.lowlevel.FdStream(os.dup(process.stdout.fileno())) as stream:
            while not line.endswith(b"\n"):
                data = await stream.receive_some()
                if not data:
                    return None
                line += data
        found: dict[str, Any] = json.loads(line)
        return found

    async def stop(self) -> None:
        """Asks the brokers to end, and waits for them."""
        self._is_stopping = True
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        with trio.move_on_after(STOP_TIMEOUT_S):
            for process in self._processes.values():
                await _ended(process)

    def close(self) -> None:
        """Ends the brokers that are left."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """Waits for the end and returns the exit status; if a signal killed the process, the negated signal number."""
    status = process.poll()
    if status is None:
        fd = os.pidfd_open(process.pid)
        try:
            await trio.lowlevel.wait_readable(fd)
        finally:
            os.close(fd)
        status = process.wait()
    return status
