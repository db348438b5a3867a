"""``standalone --replicas`` and ``--brokers``: several brokers on one machine, each a process, so that it can be killed
and has a core of its own. The nameserver and, for replicas, a controller are in this process."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.errors import RocketMQError, UsageError
from rmqproto.ha import MASTER_ID
from rmqproto.hosts import PORT_MAX, is_port, join, not_a_port
from rmqserver.advertise import Advertise, open_listener
from rmqserver.auth.auth_settings import AUTH_KEYS
from rmqserver.command_line import Options, ServerPlan, absolute, defaults_of, plan, settings_of
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.process import Fail
from rmqserver.tls.settings import TLS_KEYS

if TYPE_CHECKING:
    from rmqserver.process.controller_host import ControllerHost
    from rmqserver.process.namesrv_host import NamesrvHost

log = logging.getLogger(__name__)

PORTS_APART = 10
"""Distance between the ports of brokers: each also uses one port above its own, and one two below."""

AGAIN_S = 3.0
"""Time until a broker that has ended is started again, as a service manager would do."""

STOP_TIMEOUT_S = 30.0

_REPLICAS = {
    "brokerName": "broker-a",
    "allAckInSyncStateSet": "true",
    "checkSyncStateSetPeriod": "500",
}
"""Defaults of a set beside those of a standalone: no message that was acknowledged is lost with the master."""

_BROKERS = {"autoCreateTopicOnAllBrokers": "true"}

_OWN_PORTS = ("grpcServerPort", "haListenPort", "metricsPromExporterPort")
"""Other ports of a broker than its first. If one is given, it is the first broker's."""

_OWN_KEYS = ("brokerName", "storePathRootDir", "storePathCommitLog")
"""What no two brokers may share."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LocalSetPlan:
    ports: tuple[int, ...]
    """The port of each broker; 0: it takes any free one."""
    arguments: tuple[str, ...]
    """Added to the command lines of all brokers."""
    own_arguments: tuple[tuple[str, ...], ...]
    """Added to the command line of each."""
    store_names: tuple[str, ...]
    """The directory of each broker's store, below the root."""
    root: str | None
    """Directory of the stores. None: a temporary one."""
    is_each_peers_own: bool
    """Whether a peer is told the address on which it reached the nameserver: the brokers, too, listen on all."""


def plan_local_set(options: Options) -> tuple[ServerPlan, LocalSetPlan]:
    """UsageError for options that several brokers cannot have."""
    if options.replicas is not None and options.brokers is not None:
        raise UsageError("--replicas and --brokers exclude each other: copies of one broker, or several masters")
    given = settings_of(options)
    _refuse(options, given)
    alone = dataclasses.replace(
        options, has_broker=False, port=options.namesrv_port, config=None, settings=(), metrics_port=None
    )
    planned = plan(alone)
    count, shared, controller = options.brokers or 0, _BROKERS, None
    if options.replicas is not None:
        count, controller = options.replicas, ControllerConfig()
        controller.load({**({"listenPort": "0"} if options.namesrv_port == 0 else {}), "bindAddress": planned.listen})
        copies = "2" if count > 2 else "1"  # one may be lost, and the others continue
        shared = {**_REPLICAS, "minInSyncReplicas": copies}
    root = absolute(options.data) if options.data else None
    ports = _ports("--port", str(10911 if options.port is None else options.port), count)
    if options.brokers is None:
        names = [f"broker-{number}" for number in range(1, count + 1)]
        own: list[list[str]] = [[] for _ in names]
    else:
        _refuse_single_store(root)
        names = [f"broker-{chr(ord('a') + each)}" for each in range(count)]
        own = _own_arguments(options, planned, given, names, has_usual_ports=ports[0] != 0)
    made = LocalSetPlan(
        ports=tuple(ports),
        arguments=tuple(_shared_arguments(options, given, shared)),
        own_arguments=tuple(map(tuple, own)),
        store_names=tuple(names),
        root=root,
        is_each_peers_own=options.brokers is not None
        and Advertise(
            planned.listen, 0, planned.advertise[0] if planned.advertise else given.get("brokerIP1")
        ).is_each_peers_own,
    )
    return dataclasses.replace(planned, controller=controller), made


def _refuse(options: Options, given: Mapping[str, str]) -> None:
    flag = "--replicas" if options.brokers is None else "--brokers"
    refused: dict[str, object] = {"--seed": options.seed}
    if options.brokers is None:
        refused |= {
            "--fault": options.faults, "--test-requests": options.test_requests,
            "--metrics-port": options.metrics_port, "--advertise": options.advertise,
        }  # fmt: skip
    else:
        set_keys = {text.partition("=")[0].strip() for text in options.settings}
        refused |= {f"--set {key}": key in set_keys for key in _OWN_KEYS}
    for name, value in refused.items():
        if value:
            raise UsageError(f"{name} and {flag} exclude each other: {name} is for a single broker")
    if guards := sorted(given.keys() & (TLS_KEYS | AUTH_KEYS)):
        raise UsageError(
            f"{guards[0]} and {flag}: these brokers are without TLS and users",
            hint="start nameserver, controller and brokers one by one (docs/controller.md)"
            if options.brokers is None
            else "start nameserver and brokers one by one, each with a brokerName of its own (docs/brokers.md)",
        )


def _refuse_single_store(root: str | None) -> None:
    """UsageError for the store of a broker that was alone: nobody would serve its messages."""
    if root is not None and Path(root, "commitlog").exists():
        raise UsageError(
            f"--data {root} holds the store of one broker, and --brokers keeps each in a directory of its own",
            hint=f"to go on with its messages, move all that is in it to {root}/broker-a; or name another directory",
        )


def _shared_arguments(options: Options, given: Mapping[str, str], shared: Mapping[str, str]) -> list[str]:
    usual = {**defaults_of(options), **shared}
    passed = ["--log-level", options.log_level]
    passed += [f"--set={key}={value}" for key, value in usual.items() if key not in given]
    passed += [f"--set={each}" for each in options.settings]
    passed += ["--allow-unknown"] if options.allow_unknown else []
    for flag, value in (("--listen", options.listen), ("--config", options.config), ("--flush", options.flush)):
        if value is not None:
            passed += [flag, value]
    if options.data is None and options.flush is None and "flushDiskType" not in given:
        passed += ["--flush", "async"]
    if options.brokers is not None:
        has_test_requests = options.test_requests or ("on" if options.data is None else "off")
        passed += ["--test-requests", has_test_requests, *(f"--fault={rule}" for rule in options.faults)]
    return passed


def _own_arguments(
    options: Options, planned: ServerPlan, given: Mapping[str, str], names: list[str], *, has_usual_ports: bool
) -> list[list[str]]:
    """Whatever names a port names that of the first broker."""
    own = [[f"--set=brokerName={name}"] for name in names]

    def add(what: str, first: str, argument: str) -> None:
        for arguments, port in zip(own, _ports(what, first, len(own)), strict=True):
            arguments.append(argument.format(port))

    for key in _OWN_PORTS:
        if key in given:
            add(key, given[key], f"--set={key}={{}}")
    if options.metrics_port is not None:
        add("--metrics-port", str(options.metrics_port), "--metrics-port={}")
    if planned.advertise is not None:
        host, port = planned.advertise
        if port is None:
            for arguments in own:
                arguments.append(f"--advertise={host}")
        else:
            add("--advertise", str(port), f"--advertise={join(host, 0)[:-1]}{{}}")
    if has_usual_ports and "grpcServerPort" not in given:
        own[0] += _usual_grpc_port(planned.listen)
    return own


def _usual_grpc_port(listen: str) -> list[str]:
    """The port that examples of clients of gRPC name is the first broker's, if it is free."""
    from rmqserver.doors.grpc.grpc_door import is_installed

    port = BrokerConfig().grpc_server_port
    with suppress(UsageError):
        if is_installed():
            open_listener(listen, port, 1, hint="").close()
            return [f"--set=grpcServerPort={port}"]
    return []


def _ports(what: str, first: str, count: int) -> list[int]:
    """One for each broker; all 0 if the first is."""
    if first != "0" and not is_port(first):
        raise UsageError(f"{what} {first}: {not_a_port(first)}")
    ports = [int(first) and int(first) + PORTS_APART * number for number in range(count)]
    if ports[-1] + 1 > PORT_MAX:
        raise UsageError(f"{what} {first}: the last of {count} brokers would use {ports[-1] + 1}, past {PORT_MAX}")
    return ports


class LocalSet:
    """``run`` it as a task, ``stop`` it at the end."""

    def __init__(self, plan: LocalSetPlan, root: str, namesrv_addr: str, controller_addr: str | None):
        self._plan = plan
        self._root = root
        self._namesrv_addr = namesrv_addr
        self._controller_addr = controller_addr
        self._is_stopping = False
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.brokers: dict[int, dict[str, Any]] = {}
        """The ready line of each broker, by number."""

    async def run(self) -> RocketMQError:
        """Keeps the brokers running. Returns if one does not start."""
        failure: list[RocketMQError] = []

        async def keep(number: int) -> None:
            failure.append(await self._keep_running(number))
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for number in range(len(self._plan.store_names)):
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
            assert process.stdout is not None
            process.stdout.close()
            name = self._plan.store_names[number]
            if number not in self.brokers:
                return RocketMQError(f"{name} has ended with status {status}", hint="its log is above")
            how = signal.Signals(-status).name if status < 0 else f"status {status}"
            log.warning("event=broker-ended name=%s how=%r again_s=%g", name, how, AGAIN_S)
            await trio.sleep(AGAIN_S)
            if self._is_stopping:
                await trio.sleep_forever()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        port, store = self._plan.ports[number], f"{self._root}/{self._plan.store_names[number]}"
        before = self.brokers.get(number, {})
        if not port and before:
            port = _port_in(before["broker_addr"])
        command = [
            "broker", "--namesrv", self._namesrv_addr, "--port", str(port), "--data", store, *self._plan.arguments,
            *self._plan.own_arguments[number],
        ]  # fmt: skip
        if "grpc_addr" in before:
            command.append(f"--set=grpcServerPort={_port_in(before['grpc_addr'])}")
        if self._controller_addr is not None:
            command += ["--set=enableControllerMode=true", f"--set=controllerAddr={self._controller_addr}"]
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

    def close(self) -> bool:
        """Ends the brokers that are left. False if one says that something is not on the device."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        return all(process.returncode <= 0 for process in self._processes.values())


def _port_in(addr: str) -> int:
    return int(addr.rpartition(":")[2])


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


LOOK_EVERY_S = 0.02


class SetHost:
    """``run`` is a task; ``stop`` and ``close`` it at the end."""

    def __init__(self, plan: LocalSetPlan, root: str, namesrv: NamesrvHost, controller: ControllerHost | None):
        self._plan = plan
        self._namesrv = namesrv.nameserver
        self._controller = controller.controller if controller is not None else None
        self._set = LocalSet(plan, root, namesrv.addr, controller.addr if controller is not None else None)
        self.stop, self.close = self._set.stop, self._set.close

    async def run(self, fail: Fail) -> None:
        failure = await self._set.run()
        await self._set.stop()
        await fail(failure)

    async def ready(self) -> str:
        """The address of the master or of the first broker, once the nameserver knows all brokers, and replicas are in
        sync."""
        look = self._master_addr if self._controller is not None else self._first_addr
        while (addr := look()) is None:
            await trio.sleep(LOOK_EVERY_S)
        return addr

    def _first_addr(self) -> str | None:
        names = self._plan.store_names
        known = self._namesrv.routes.cluster_info().broker_addr_table
        if len(self._set.brokers) < len(names) or not known.keys() >= set(names):
            return None
        addrs: list[str] = [self._set.brokers[number]["broker_addr"] for number in range(len(names))]
        if self._plan.is_each_peers_own:
            for addr in addrs:
                self._namesrv.tell_each_peers_own(addr, int(addr.rpartition(":")[2]))
        return addrs[0]

    def _master_addr(self) -> str | None:
        assert self._controller is not None
        count = len(self._plan.store_names)
        known = self._namesrv.routes.cluster_info().broker_addr_table
        for name, each in self._controller.sets.items():
            is_in_sync = each.master_broker_id is not None and len(each.sync_state_set) == count
            addrs = known[name].broker_addrs if name in known else {}
            if is_in_sync and len(addrs) == count and addrs.get(MASTER_ID) == each.master_address:
                return each.master_address
        return None

    def facts(self) -> dict[str, Any]:
        """What the ready line tells of the brokers, in their order."""
        brokers = [ready for _, ready in sorted(self._set.brokers.items())]
        return {
            "broker_addrs": [each["broker_addr"] for each in brokers],
            "store_dirs": [each["store_dir"] for each in brokers],
            "grpc_addr": brokers[0].get("grpc_addr"),
            "core": brokers[0]["core"],
            "brokers": [
                {key: each[key] for key in ("broker_addr", "pid", "store_dir", "metrics_addr") if key in each}
                for each in brokers
            ],
        }
