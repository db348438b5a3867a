"""One process: a nameserver, a broker, or both, or a controller, on one loop in one trio run. Its start, its ready line
and its clean end. Imports that only one of them needs are made where it is created."""

from __future__ import annotations

import logging
import resource
import signal
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import trio

from rmqproto.errors import RocketMQError
from rmqserver import temporary_store
from rmqserver.command_line import ServerPlan
from rmqserver.process.entrance import Entrance
from rmqserver.process.ready_line import announce, check_ready_file
from rmqserver.remoting.loop import Loop
from rmqserver.temporary_store import TemporaryStore

if TYPE_CHECKING:
    from rmqserver.doors.remoting.broker_door import BrokerDoor
    from rmqserver.metrics.watch_pages import WatchPages
    from rmqserver.process.broker_host import BrokerHost
    from rmqserver.process.controller_host import ControllerHost
    from rmqserver.process.for_tests import ForTests
    from rmqserver.process.local_set import LocalSetPlan, SetHost
    from rmqserver.process.namesrv_host import NamesrvHost
    from rmqserver.remoting.service import Service

log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_STORE_FAILED = 1
"""Something could not be written to the device. The logs tell how much of what was acknowledged is there."""


def serve(plan: ServerPlan, started_s: float, local_set: LocalSetPlan | None = None) -> int:
    """Serves until SIGTERM, SIGINT or SIGHUP; returns the exit status. UsageError or StorageError if it cannot start.

    ``started_s`` is ``time.perf_counter()`` at the start of the program. ``local_set``: brokers that this process
    starts and ends.
    """
    if plan.ready_file is not None:
        check_ready_file(plan.ready_file)
    # As Java does when it starts: every client is an open file, and 1024 is a usual limit.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("event=open-files-limit limit=%d reason=%r", soft, str(error))
    return trio.run(_Server(plan, started_s, local_set).run)


class _Server:
    """The hosts of one process, in the order in which they start."""

    def __init__(self, plan: ServerPlan, started_s: float, local_set: LocalSetPlan | None):
        self._plan = plan
        self._set_plan = local_set
        self._started_s = started_s
        self._loop = Loop()
        self._entrance = Entrance(plan, self._loop)
        self._temporary_store: TemporaryStore | None = None
        self._store_dir: str | None = None
        self._namesrv: NamesrvHost | None = None
        self._broker: BrokerHost | None = None
        self._controller: ControllerHost | None = None
        self._set: SetHost | None = None
        self._for_tests: ForTests | None = None
        self._watch_pages: WatchPages | None = None
        self._metrics_addr: str | None = None
        self._nursery: trio.Nursery | None = None
        self._failure: RocketMQError | None = None
        """Why the server ends, if no signal asked for it."""

    async def run(self) -> int:
        """Call it once."""
        stop_signals = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup; a closed terminal sends it
            stop_signals.append(signal.SIGHUP)
        try:
            with trio.open_signal_receiver(*stop_signals) as signals:
                self._entrance.open_tls()
                self._host()
                from rmqserver.process.for_tests import ForTests

                others: list[Service] = [self._namesrv.nameserver] if self._namesrv is not None else []
                others += [self._controller.controller] if self._controller is not None else []
                self._for_tests = ForTests(self._plan, self._loop, others, self._broker)
                if self._plan.metrics is not None:
                    await self._open_watch_pages(*self._plan.metrics)
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    await self._serve(nursery, signals)
                    nursery.cancel_scope.cancel()
        finally:
            is_all_kept = self._close()
        log.info("event=stopped")
        if self._failure is not None:
            raise self._failure
        return EXIT_OK if is_all_kept else EXIT_STORE_FAILED

    async def _fail(self, error: RocketMQError) -> NoReturn:
        """Implements ``Fail``."""
        assert self._nursery is not None
        self._failure = error
        self._nursery.cancel_scope.cancel()
        await trio.sleep_forever()

    # --- start -------------------------------------------------------------------------------------------------------

    def _host(self) -> None:
        plan, entrance, loop = self._plan, self._entrance, self._loop
        if plan.namesrv is not None:
            from rmqserver.process.namesrv_host import NamesrvHost

            self._namesrv = NamesrvHost(plan.namesrv, plan, entrance)
        if plan.broker is not None:
            from rmqserver.process.broker_host import BrokerHost

            self._store_dir = plan.store_dir or self._make_temporary_store()
            self._broker = BrokerHost(plan.broker, plan, self._store_dir, entrance, loop, self._namesrv)
            self._broker.open()
        if self._set_plan is not None:
            self._store_dir = self._set_plan.root or self._make_temporary_store()
        if plan.controller is not None:
            from rmqserver.process.controller_host import ControllerHost

            if self._set_plan is not None:
                plan.controller.record({"controllerStorePath": f"{self._store_dir}/controller"})
            self._controller = ControllerHost(plan.controller, plan, entrance, loop)
            self._controller.open()

    def _make_temporary_store(self) -> str:
        self._temporary_store = TemporaryStore()
        path = self._temporary_store.path
        log.warning("event=temporary-store dir=%s reason='no --data was given; removed at the end'", path)
        return path

    async def _open_watch_pages(self, host: str, port: int) -> None:
        from rmqserver.metrics.watch_pages import WatchPages

        self._watch_pages = pages = WatchPages()
        if self._broker is not None:
            from rmqserver.metrics.broker_families import BrokerFamilies

            def watch(door: BrokerDoor) -> None:
                broker = door.broker
                families = BrokerFamilies(
                    broker.config, broker.store, broker.topics, broker.groups, broker.offsets, broker.clients,
                    broker.stats, broker.timer_store,
                )  # fmt: skip
                pages.watch(broker, families)

            watch(self._broker.door)
            self._broker.on_door.append(watch)
        self._metrics_addr = await pages.listen(host, port)
        log.info("event=metrics-opened url=http://%s/metrics", self._metrics_addr)

    # --- serving -----------------------------------------------------------------------------------------------------

    async def _serve(self, nursery: trio.Nursery, signals: AsyncIterator[int]) -> None:
        """Serves until a signal comes."""
        await self._start_tasks(nursery)
        if self._broker is not None:
            await self._broker.serve()
        assert self._for_tests is not None
        self._for_tests.start(nursery)
        if self._watch_pages is not None:
            self._watch_pages.is_serving = True
        if self._set_plan is not None:
            self._start_set(nursery, self._set_plan)
        else:
            self._announce(self._broker.addr if self._broker is not None else None)
        for service, setting in self._plan.unasked().items():
            log.warning(
                "event=nobody-is-asked service=%s listen=%s reason='without %s, all who reach the port may do "
                "everything'",
                service, self._plan.listen, setting,
            )  # fmt: skip
        if self._temporary_store is not None:  # in a thread, because a killed process may have left much
            nursery.start_soon(partial(trio.to_thread.run_sync, temporary_store.sweep, abandon_on_cancel=True))
        stop = await anext(signals)
        log.info("event=stopping signal=%s", signal.Signals(stop).name)
        if self._watch_pages is not None:
            self._watch_pages.is_serving = False
        if self._broker is not None:
            await self._broker.unregister()
        if self._set is not None:
            await self._set.stop()

    async def _start_tasks(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._loop.run)
        self._entrance.start(nursery)
        if self._namesrv is not None:
            nursery.start_soon(self._namesrv.nameserver.run)
        if self._controller is not None:
            nursery.start_soon(self._controller.run, self._fail)
        if self._broker is not None:
            await self._broker.start(nursery, self._fail)
        if self._watch_pages is not None:
            nursery.start_soon(self._watch_pages.run)

    def _start_set(self, nursery: trio.Nursery, plan: LocalSetPlan) -> None:
        """Ready when all of its brokers are."""
        from rmqserver.process.local_set import SetHost

        assert self._namesrv is not None
        assert self._store_dir is not None
        self._set = hosted = SetHost(plan, self._store_dir, self._namesrv, self._controller)

        async def announce_when_ready() -> None:
            self._announce(await hosted.ready())

        nursery.start_soon(hosted.run, self._fail)
        nursery.start_soon(announce_when_ready)

    def _announce(self, broker_addr: str | None) -> None:
        announce(
            {
                "namesrv_addr": self._namesrv.addr if self._namesrv is not None else None,
                "broker_addr": broker_addr,
                "grpc_addr": self._broker.grpc_addr if self._broker is not None else None,
                "controller_addr": self._controller.addr if self._controller is not None else None,
                "metrics_addr": self._metrics_addr,
                "store_dir": self._store_dir,
                "core": self._broker.core if self._broker is not None else None,
                **(self._set.facts() if self._set is not None else {}),
                "ready_ms": round((time.perf_counter() - self._started_s) * 1000),
            },
            self._plan.ready_file,
        )

    # --- end ---------------------------------------------------------------------------------------------------------

    def _close(self) -> bool:
        """False if something that should be on the device is not."""
        self._loop.stop_listening()
        is_all_kept = self._set is None or self._set.close()
        if self._broker is not None:
            is_all_kept = self._broker.close() and is_all_kept
        if self._controller is not None:
            self._controller.close()
        if self._namesrv is not None:
            is_all_kept = self._namesrv.close() and is_all_kept
        self._loop.close()
        if self._broker is not None:
            self._broker.close_ha()
        if self._temporary_store is not None:
            self._temporary_store.remove()
        return is_all_kept
