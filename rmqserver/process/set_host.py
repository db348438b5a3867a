"""``standalone --replicas`` and ``--brokers``: the broker processes, and when all of them are ready."""

from __future__ import annotations

from typing import Any

import trio

from rmqproto.ha import MASTER_ID
from rmqserver.local_set import LocalSet, LocalSetPlan
from rmqserver.process import Fail
from rmqserver.process.controller_host import ControllerHost
from rmqserver.process.namesrv_host import NamesrvHost

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
