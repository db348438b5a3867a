"""What follows from the broker's role: master or slave, alone or in a set that a controller leads, and acting for
others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import trio

from rmqproto.codes import RequestCode
from rmqserver.broker.controlled.forwarding import Forwarding
from rmqserver.broker.controlled.member_handlers import MemberHandlers
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.controlled.set_slave import SetSlave
from rmqserver.broker.controlled.set_state import SetState
from rmqserver.broker.nameservers import Nameservers
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.replicas.enough_slaves import EnoughSlaves
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.broker.replicas.master_link import MasterLink
from rmqserver.broker.replicas.members import KnownMembers
from rmqserver.broker.replicas.pre_online import PreOnline
from rmqserver.broker.replicas.slave import Slave
from rmqserver.broker.replicas.table_watch import TableWatch
from rmqserver.config.setting_values import BrokerRole
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
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
        parts: BrokerParts,
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
        self.online = trio.Event()
        """Set once nameservers may be told of this broker."""
        self._members: KnownMembers | None = None
        self._pre_online: PreOnline | None = None
        config = parts.config
        if config.broker_role is BrokerRole.SLAVE:
            self._follow(set_state)
        else:
            self.table_watch = TableWatch(parts, loop)
            handler = self.table_watch.by(self.handlers[RequestCode.EXCHANGE_BROKER_HA_INFO])
            self.handlers[RequestCode.EXCHANGE_BROKER_HA_INFO] = handler
        if config.enable_slave_acting_master and nameservers is not None and nameservers.has_nameservers:
            self._act_for_others(nameservers)
        if self._pre_online is None:
            self.online.set()
        if set_state is not None and isinstance(parts.replicas, SetMaster):
            self.handlers |= MemberHandlers(set_state, parts.replicas).handlers(self.handlers)

    def _follow(self, set_state: SetState | None) -> None:
        config, store, nameservers = self._parts.config, self._parts.store, self._nameservers
        traffic = ByLoop(self._loop)
        if set_state is None:
            self.slave = Slave(self._parts, self._make_link, HaSlave(config, store, traffic))
            if nameservers is not None:
                nameservers.when_master_is_known(self.slave.take_master)
        else:
            log = SetSlave(config, store, set_state.epochs, set_state.cut, traffic)
            self.slave = Slave(self._parts, self._make_link, log)
            self.forwarding = Forwarding(config, self._loop, nameservers, set_state, self.slave)
        self.handlers |= self.slave.handlers(self.handlers)

    def _act_for_others(self, nameservers: Nameservers) -> None:
        """Sets up ``enableSlaveActingMaster``: a slave stands in for its master, which asks its slaves when it is
        back."""
        config, topics = self._parts.config, self._parts.topics
        self._members = KnownMembers(config, nameservers, lambda: topics.data_version)
        self.handlers[RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE] = self._look_for_members
        if self.slave is not None:
            self._members.on_found = self.slave.members_found
            return
        enough_slaves = EnoughSlaves(self._parts.replicas)
        self.handlers |= enough_slaves.handlers(self.handlers)
        self._members.on_found = enough_slaves.members_found
        if not config.skip_pre_online:
            self._pre_online = PreOnline(self._parts, self._members, self._make_link, nameservers.own_addr)
            self.handlers |= self._pre_online.handlers(self.handlers)
            nameservers.before_return = self._pre_online.run

    def _make_link(self) -> MasterLink:
        return MasterLink(self._loop, self._nameservers)

    def _look_for_members(self, request: Request[Any], connection: Connection) -> bytes:
        """905. An Apache broker believes the notice; ours asks the nameservers."""
        assert self._members is not None
        self._members.look_again()
        return success(request)

    # --- its tasks ---------------------------------------------------------------------------------------------------

    def start(self, nursery: trio.Nursery, duties: Iterable[MasterDuty]) -> None:
        """Starts the role's tasks; a slave leaves the ``duties`` to its master."""
        if self.slave is None:
            nursery.start_soon(self._deliver, duties)
        else:
            nursery.start_soon(self.slave.run)
            if self.forwarding is not None:
                nursery.start_soon(self.forwarding.run)
        if self.table_watch is not None:
            nursery.start_soon(self.table_watch.run)
        if self._members is not None:
            nursery.start_soon(self._members.run)

    async def _deliver(self, duties: Iterable[MasterDuty]) -> None:
        """Runs the duties. A master that comes back asks its slaves first."""
        if self._pre_online is not None:
            await self._pre_online.run()
            self.online.set()
        async with trio.open_nursery() as nursery:
            if self._pre_online is not None:
                nursery.start_soon(self._pre_online.take_late_commits)
            for duty in duties:
                nursery.start_soon(duty.run)
