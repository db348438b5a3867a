"""One process put together: a nameserver, a broker, or both, on one loop in one trio run; its start, its ready line and
its clean end."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from rmqproto.errors import UsageError
from rmqserver.advertise import Advertise, join, local_host
from rmqserver.config import BrokerConfig, NamesrvConfig
from rmqserver.loop import Loop
from rmqserver.options import Plan, store_paths

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.registration import Registration
    from rmqserver.dispatch import Service
    from rmqserver.namesrv.kv import KvConfig
    from rmqserver.namesrv.service import Nameserver

log = logging.getLogger(__name__)

FAST_PORT_DISTANCE = 2
"""Old clients send to a second listener so far below the broker's port (Apache's "fast" or "VIP" port)."""

EXIT_OK = 0
EXIT_STORE_FAILED = 1
"""Something could not be brought to the device: what was acknowledged is there only as far as the logs say."""


def serve(plan: Plan, started_s: float) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit status. UsageError or StorageError where it cannot start.

    ``started_s`` is ``time.perf_counter()`` at the start of the program.
    """
    _raise_open_files_limit()
    return trio.run(_Server(plan, started_s).run)


def _raise_open_files_limit() -> None:
    """To what the system allows, as Java does at its start: every client is an open file, and 1024 is a usual limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("event=open-files-limit limit=%d reason=%r", soft, str(error))


class _Server:
    """The parts of one process. What only one of the roles needs is imported by its own method."""

    def __init__(self, plan: Plan, started_s: float):
        self._plan = plan
        self._started_s = started_s
        self._loop = Loop()
        self._kv: KvConfig | None = None
        self._namesrv: Nameserver | None = None
        self._namesrv_addr: str | None = None
        self._broker: Broker | None = None
        self._broker_addr: str | None = None
        self._store_dir: str | None = None
        self._registration: Registration | None = None

    async def run(self) -> int:
        """Once."""
        try:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                if self._plan.namesrv is not None:
                    self._start_namesrv(self._plan.namesrv)
                if self._plan.broker is not None:
                    self._start_broker(self._plan.broker)
                async with trio.open_nursery() as nursery:
                    await self._serve(nursery, signals)
                    nursery.cancel_scope.cancel()
        finally:
            is_all_kept = self._close()
        log.info("event=stopped")
        return EXIT_OK if is_all_kept else EXIT_STORE_FAILED

    async def _serve(self, nursery: trio.Nursery, signals: AsyncIterator[int]) -> None:
        """Until a signal comes."""
        nursery.start_soon(self._loop.run)
        if self._namesrv is not None:
            nursery.start_soon(self._namesrv.run)
        if self._broker is not None:
            nursery.start_soon(self._broker.run)
        if self._registration is not None:
            nursery.start_soon(self._registration.run)
            await self._registration.first_round()
        self._announce()
        stop = await anext(signals)
        log.info("event=stopping signal=%s", signal.Signals(stop).name)
        if self._registration is not None:
            await self._registration.unregister()

    def _close(self) -> bool:
        """False if something that should be on the device is not. Clients get what the broker's end still answers."""
        self._loop.stop_listening()
        is_all_kept = True
        if self._broker is not None:
            is_all_kept = self._broker.close()
        if self._kv is not None:
            is_all_kept = self._kv.close() and is_all_kept
        self._loop.close()
        if self._plan.store_dir is None and self._store_dir is not None:
            shutil.rmtree(self._store_dir, ignore_errors=True)
        return is_all_kept

    # --- start -------------------------------------------------------------------------------------------------------

    def _start_namesrv(self, config: NamesrvConfig) -> None:
        from rmqserver.namesrv.kv import KvConfig
        from rmqserver.namesrv.service import Nameserver

        self._kv = KvConfig(Path(self._plan.kv_path) if self._plan.kv_path else None)
        self._kv.load()
        self._namesrv = Nameserver(config, self._kv)
        port = self._listen(config.listen_port, self._namesrv)
        config.record({"listenPort": str(port)})
        self._namesrv_addr = join(local_host(self._plan.listen), port)

    def _start_broker(self, config: BrokerConfig) -> None:
        from rmqserver.broker.broker import Broker
        from rmqserver.broker.registration import Registration

        self._store_dir = self._plan.store_dir or _make_temporary_dir()
        config.record(store_paths(self._store_dir))
        self._broker = Broker(config, self._loop)
        # The port before the store: who cannot have the port should not touch the store.
        asked_port = config.listen_port
        port = self._listen(asked_port, self._broker)
        if asked_port > FAST_PORT_DISTANCE:
            self._listen_fast(asked_port, self._broker)
        advertise = self._advertise(port)
        config.record({"listenPort": str(port), "brokerIP1": advertise.host or ""})
        self._broker.open(advertise.record_host())
        self._broker_addr = advertise.addr(local_host(self._plan.listen))
        namesrv_addrs = [*filter(None, [self._namesrv_addr]), *config.namesrv_addresses]
        self._registration = Registration(config, self._broker.topics, self._loop, namesrv_addrs, advertise.addr)
        self._broker.topics.on_change.append(self._registration.changed)
        self._broker.when_told = self._registration.when_told

    def _advertise(self, bound_port: int) -> Advertise:
        host, port = self._plan.advertise or (None, None)
        return Advertise(self._plan.listen, port or bound_port, host)

    def _listen(self, port: int, service: Service) -> int:
        return self._loop.listen(self._plan.listen, port, service)

    def _listen_fast(self, port: int, broker: Broker) -> None:
        fast_port = port - FAST_PORT_DISTANCE
        try:
            self._loop.listen(self._plan.listen, fast_port, broker, main_port=port)
        except UsageError as error:
            log.info("event=no-fast-port port=%d reason=%r", fast_port, str(error))

    def _announce(self) -> None:
        """The ready line, on standard output and in the file; the file is whole when it is there."""
        facts = {
            "event": "ready",
            "pid": os.getpid(),
            "namesrv_addr": self._namesrv_addr,
            "broker_addr": self._broker_addr,
            "store_dir": self._store_dir,
            "ready_ms": round((time.perf_counter() - self._started_s) * 1000),
        }
        line = json.dumps({name: fact for name, fact in facts.items() if fact is not None}) + "\n"
        if self._plan.ready_file is not None:
            path = Path(self._plan.ready_file)
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            temporary.write_text(line)
            temporary.replace(path)
        sys.stdout.write(line)
        sys.stdout.flush()


def _make_temporary_dir() -> str:
    path = tempfile.mkdtemp(prefix="rmqserver-")
    log.warning("event=temporary-store dir=%s reason='no --data was given; removed at the end'", path)
    return path
