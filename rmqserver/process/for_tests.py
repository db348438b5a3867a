"""Support for tests: requests that go wrong, and a broker that returns to its start or to a snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from rmqserver.command_line import ServerPlan
from rmqserver.faults import FAULT_CODES, FaultAdmin, FaultGate, NoTestRequests
from rmqserver.process.broker_host import BrokerHost
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service
from rmqserver.snapshots import STORE_CODES, StoreAdmin


class ForTests:
    """The fault gate is there even without test requests, for ``--fault``. ``start`` its tasks when the server
    serves."""

    def __init__(self, plan: ServerPlan, loop: Loop, services: Sequence[Service], host: BrokerHost | None):
        """``services`` are all but the broker of ``host``, which may be replaced later."""
        self._plan = plan
        self._services = services
        self._faults = FaultGate(loop, FAULT_CODES | STORE_CODES)
        self._store_admin: StoreAdmin | None = None
        if host is None:
            self._faults.guard(services)
            return
        if plan.has_test_requests:
            self._store_admin = StoreAdmin(host.store_dir, host.reopen)
        host.on_door.append(self._take)
        self._take(host.door)

    def _take(self, door: Service) -> None:
        self._faults.guard([*self._services, door])
        if self._store_admin is not None:
            door.add_handlers({**FaultAdmin(self._faults).handlers(), **self._store_admin.handlers()})
        else:
            door.add_handlers(NoTestRequests().handlers())

    def start(self, nursery: trio.Nursery) -> None:
        if self._store_admin is not None:
            nursery.start_soon(self._store_admin.run)
        nursery.start_soon(self._faults.run)
        if self._plan.faults:  # only now: the registration that made it ready must not fail
            self._faults.set_rules(self._plan.faults)
