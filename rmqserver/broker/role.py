"""What follows from the broker's role: master or slave, alone or in a set that a controller leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import trio

from rmqproto.codes import RequestCode
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.controlled.forwarding import Forwarding
from rmqserver.broker.controlled.member_handlers import MemberHandlers
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.controlled.set_slave import SetSlave
from rmqserver.broker.controlled.set_state import SetState
from rmqserver.broker.nameservers import Nameservers
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.broker.replicas.master_link import MasterLink
from rmqserver.broker.replicas.metadata_copy import MetadataCopy
from rmqserver.broker.replicas.slave import Slave
from rmqserver.broker.replicas.table_watch import TableWatch
from rmqserver.config.setting_values import BrokerRole
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Handler
from rmqserver.remoting.traffic import ByLoop


class MasterDuty(Protocol):
    """A task that puts messages into their queues later: delays, transactions, timers, POP."""

    async def run(self) -> None: ...


class Role:
    """The role of a broker, for its whole life: when the role changes, a new ``Broker`` is made."""

    slave: Slave | None = None
    """None on a master."""

    forwarding: Forwarding | None = None
    """Set on a slave under controllers: forwards the requests that only a master may answer."""

    table_watch: TableWatch | None = None
    """None on a slave."""

    def __init__(
        self,
        parts: BrokerAssembly,
        loop: Loop,
        nameservers: Nameservers | None,
        set_state: SetState | None,
        handlers: Mapping[int, Handler],
    ):
        """``handlers`` are the same for every role; ``self.handlers`` is that table with this role's own handlers."""
        self._parts = parts
        self._loop = loop
        self._nameservers = nameservers
        self.handlers = dict(handlers)
        config = parts.config
        if config.broker_role is BrokerRole.SLAVE:
            self._follow(set_state)
        else:
            self.table_watch = TableWatch(parts.topics, parts.groups, loop)
            if (answers := self.handlers.get(RequestCode.EXCHANGE_BROKER_HA_INFO)) is not None:
                self.handlers[RequestCode.EXCHANGE_BROKER_HA_INFO] = self.table_watch.by(answers)
        if set_state is not None and isinstance(parts.replicas, SetMaster):
            self.handlers |= MemberHandlers(set_state, parts.replicas).handlers(self.handlers)

    def _follow(self, set_state: SetState | None) -> None:
        config, store, nameservers = self._parts.config, self._parts.store, self._nameservers
        traffic = ByLoop(self._loop)
        if set_state is None:
            self.slave = self._slave_by(HaSlave(config, store, traffic))
            if nameservers is not None:
                nameservers.when_master_is_known(self.slave.take_master)
        else:
            log = SetSlave(config, store, set_state.epochs, set_state.cut, traffic)
            self.slave = self._slave_by(log)
            self.forwarding = Forwarding(config, self._loop, nameservers, set_state, self.slave)
        self.handlers |= self.slave.handlers(self.handlers)

    def _slave_by(self, log: HaSlave) -> Slave:
        parts = self._parts
        metadata = MetadataCopy(
            parts.config, parts.store, parts.timer_store, parts.files, parts.topics, parts.groups, parts.offsets,
            lambda: log.link_number,
        )  # fmt: skip
        return Slave(
            parts.config, parts.store, parts.timer_store, parts.files, parts.address, metadata, self._make_link, log
        )

    def _make_link(self) -> MasterLink:
        return MasterLink(self._loop, self._nameservers)

    # --- its tasks ---------------------------------------------------------------------------------------------------

    def start(self, nursery: trio.Nursery, duties: Iterable[MasterDuty]) -> None:
        """Starts the role's tasks; a slave leaves the ``duties`` to its master."""
        if self.slave is None:
            for duty in duties:
                nursery.start_soon(duty.run)
        else:
            nursery.start_soon(self.slave.run)
            if self.forwarding is not None:
                nursery.start_soon(self.forwarding.run)
        if self.table_watch is not None:
            nursery.start_soon(self.table_watch.run)
