"""``standalone --replicas``: the broker processes of the set, and when all of them are ready."""

from __future__ import annotations

from typing import Any

import trio

from rmqproto.ha import MASTER_ID
from rmqserver.local_set import LocalSet, LocalSetPlan
from rmqserver.process.controller_host import ControllerHost
from rmqserver.process.failing import Fail
from rmqserver.process.namesrv_host import NamesrvHost

LOOK_EVERY_S = 0.02


class SetHost:
    """``run`` is a task; ``stop`` and ``close`` it at the end."""

    def __init__(self, plan: LocalSetPlan, store_dir: str, namesrv: NamesrvHost, controller: ControllerHost):
        self._replica_count = plan.replica_count
        self._namesrv = namesrv.nameserver
        self._controller = controller.controller
        self._set = LocalSet(plan, store_dir, namesrv.addr, controller.addr)
        self.stop, self.close = self._set.stop, self._set.close

    async def run(self, fail: Fail) -> None:
        failure = await self._set.run()
        await self._set.stop()
        await fail(failure)

    async def ready(self) -> str:
        """The master's address, once all brokers are in sync and the nameserver knows them."""
        while (addr := self._master_addr()) is None:
            await trio.sleep(LOOK_EVERY_S)
        return addr

    def _master_addr(self) -> str | None:
        known = self._namesrv.routes.cluster_info().broker_addr_table
        for name, each in self._controller.sets.items():
            is_in_sync = each.master_broker_id is not None and len(each.sync_state_set) == self._replica_count
            addrs = known[name].broker_addrs if name in known else {}
            if is_in_sync and len(addrs) == self._replica_count and addrs.get(MASTER_ID) == each.master_address:
                return each.master_address
        return None

    def facts(self) -> list[dict[str, Any]]:
        """The facts of each broker for the ready line."""
        return [
            {key: each[key] for key in ("broker_addr", "pid", "store_dir")}
            for _, each in sorted(self._set.brokers.items())
        ]
