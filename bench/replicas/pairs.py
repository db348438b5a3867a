"""A master with one slave, both ours or both Apache's. Each broker is its own process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from bench.harness.measure import Broker, lag_bytes
from bench.harness.servers import server, standalone
from rmqclient.admin import AdminClient
from tests.interop.apache import BENCHMARK_BROKER_JVM, ApacheBroker, ApacheRocketMQ
from tests.interop.cluster import SETTINGS
from tests.support.servers import until

SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}


@dataclass(frozen=True)
class Master:
    """A running master, and a function that starts a slave of it."""

    broker: Broker
    start_slave: Callable[[ExitStack], Broker]


class StartMaster(Protocol):
    def __call__(self, stack: ExitStack, settings: Mapping[str, str]) -> Master:
        """Starts a master. The stack ends it and its slaves."""


def apache_master(stack: ExitStack, settings: Mapping[str, str]) -> Master:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-apache-")))
    own = {**SETTINGS, "brokerIP2": "127.0.0.1", **settings}
    master = stack.enter_context(ApacheRocketMQ(folder / "master", own, broker_jvm=BENCHMARK_BROKER_JVM))

    def start_slave(stack: ExitStack) -> Broker:
        slave = ApacheBroker(
            folder / "slave", {**SETTINGS, **SLAVE}, master.namesrv_addr, broker_jvm=BENCHMARK_BROKER_JVM
        )
        stack.enter_context(slave)
        return Broker("slave", slave.ports[1], slave.broker_pid)

    return Master(Broker("apache", master.ports[1], master.broker_pid, master.namesrv_addr), start_slave)


def our_master(stack: ExitStack, settings: Mapping[str, str]) -> Master:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-ours-")))
    given = [f"{key}={value}" for key, value in settings.items()]
    master = stack.enter_context(standalone(folder / "master", settings=given))

    def start_slave(stack: ExitStack) -> Broker:
        command = ["broker", "--namesrv", master.namesrv_addr, "--port", "0"]
        command += ["--data", str(folder / "slave"), "--flush", "async"]  # as for the others
        command += [part for key, value in SLAVE.items() for part in ("--set", f"{key}={value}")]
        process, ready = stack.enter_context(server([*command, "--log-level", "warning"]))
        return Broker("slave", int(ready["broker_addr"].rpartition(":")[2]), process.pid)

    return Master(master, start_slave)


MASTERS: dict[str, StartMaster] = {"apache": apache_master, "ours": our_master}


@contextmanager
def pair(name: str, settings: Mapping[str, str]) -> Iterator[Broker]:
    """A master with its slave. ``name`` is one of MASTERS; ``settings`` are the master's."""
    with ExitStack() as stack:
        master = MASTERS[name](stack, settings)
        slave = master.start_slave(stack)
        wait_until_copied(master.broker)
        yield replace(master.broker, slave_pids=(slave.pid,))


def wait_until_copied(master: Broker) -> None:
    """Waits until the master has a slave, and that has everything."""
    with AdminClient("127.0.0.1:1") as admin:
        until(lambda: lag_bytes(admin, master) == 0)
