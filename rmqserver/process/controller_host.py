"""The controller of this process, and the store of its decisions: a log of events, or etcd."""

from __future__ import annotations

import logging

from rmqserver.command_line import ServerPlan
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.controller.controller import Controller
from rmqserver.controller.controller_store import ControllerName, ControllerStore
from rmqserver.controller.live_brokers import LostConnections
from rmqserver.process import Fail
from rmqserver.process.entrance import Entrance
from rmqserver.remoting.loop import Loop

log = logging.getLogger(__name__)


class ControllerHost:
    """``open`` it; ``run`` is a task; ``close`` it, even if ``open`` failed."""

    def __init__(self, config: ControllerConfig, plan: ServerPlan, entrance: Entrance, loop: Loop):
        """UsageError for an invalid address of etcd, and for access settings that do not match."""
        self._entrance = entrance
        self.controller = Controller(
            config, _store(config), entrance.make_notices(), LostConnections(), entrance.registered_addr, wake=loop.wake
        )
        if plan.auth.is_authenticating:
            entrance.guard_alone(self.controller)

    def open(self) -> None:
        """UsageError if the port is not available; StorageError if the store cannot be used."""
        controller, entrance, config = self.controller, self._entrance, self.controller.config
        # The port comes before the state, as for a broker: no connection is served before the loop runs.
        port = entrance.listen(config.listen_port, controller)
        entrance.advertise(port)
        controller.open()
        self.addr = entrance.advertised_addr()
        config.record({"listenPort": str(port)})
        if len(config.controller_dleger_peers) < 2:
            config.record({"controllerDLegerPeers": f"{config.controller_dleger_self_id}-{self.addr}"})
        log.info(
            "event=controller-opened addr=%s state=%s broker_names=%d",
            self.addr, ",".join(config.etcd_endpoints) or config.controller_store_path, len(controller.sets),
        )  # fmt: skip

    async def run(self, fail: Fail) -> None:
        me = ControllerName(self.controller.config.controller_dleger_self_id, self.addr)
        await fail(await self.controller.run(me))

    def close(self) -> None:
        self.controller.close()


def _store(config: ControllerConfig) -> ControllerStore:
    """The store that the settings ask for. UsageError as of the host."""
    if not config.etcd_endpoints:
        from rmqserver.controller.event_log import EventLog
        from rmqserver.store.disk.disk import OsDisk

        return EventLog(config.controller_store_path, OsDisk())
    from rmqserver.controller.quorum.etcd_gateway import EtcdAccess, EtcdGateway
    from rmqserver.controller.quorum.quorum_store import QuorumStore

    access = EtcdAccess(
        config.etcd_user_name, config.etcd_password_path, config.etcd_ca_path, config.etcd_cert_path,
        config.etcd_key_path,
    )  # fmt: skip
    # There is time to lose an answer of one member and ask another before the lease ends.
    gateway = EtcdGateway(config.etcd_endpoints, config.etcd_lease_ttl_s / 4, access)
    return QuorumStore(gateway, config.controller_dleger_group, config.etcd_lease_ttl_s)
