"""The broker's remoting door: its handlers, its gates in their order, and what the loop calls."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from rmqproto.errors import StorageError
from rmqserver.auth.auth_gate import AuthGate
from rmqserver.auth.plain_acl.plain_gate import PlainGate
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.errors import as_refused
from rmqserver.doors.remoting.admin_requests import (
    config_and_state_handlers,
    group_handlers,
    master_handlers,
    topic_handlers,
    user_handlers,
)
from rmqserver.doors.remoting.automatic_topics import AutomaticTopics
from rmqserver.doors.remoting.forwarding import Forwarding
from rmqserver.doors.remoting.online_clients import client_handlers
from rmqserver.doors.remoting.pop_requests import lite_handlers, pop_handlers
from rmqserver.doors.remoting.pulls import pull_handlers
from rmqserver.doors.remoting.queries import query_handlers, table_handlers
from rmqserver.doors.remoting.returned_messages import return_handlers
from rmqserver.doors.remoting.role_answers import MemberRequests, SlaveRefusals
from rmqserver.doors.remoting.sends import SendHandlers
from rmqserver.limits import InFlightGate, RateGate, has_rates
from rmqserver.operation import Refused
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.gate import GatePlace
from rmqserver.remoting.service import Service

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.remoting.outward import Outward
    from rmqserver.remoting.service import Handler
    from rmqserver.store.recovery.recovery import Recovered

log = logging.getLogger(__name__)


class BrokerDoor(Service):
    """``open`` it, which opens the broker, and ``run`` it as a task, which runs the broker."""

    def __init__(self, broker: Broker, nameservers: Outward | None = None):
        """Connections to a master are opened as those to ``nameservers``."""
        config, auth = broker.config, broker.auth_settings
        sends = SendHandlers(config, broker.store, broker.pending, broker.address, broker.unique_ids, broker.sends)
        super().__init__("broker", broker_handlers(broker, sends))
        if broker.slave is None:
            self.offer_frames_to(sends.plain_sends, sends.ask)
        self.broker = broker
        self.idle_max_s = config.server_channel_max_idle_time_s
        self.limits = config
        # As calls through methods of this class, they would cost each round of the loop.
        self.end_round = broker.end_round  # type: ignore[method-assign]
        self.idle = broker.store.index_few  # type: ignore[method-assign]
        self.offer_frames_to(broker.pull_plans.plain, broker.pull_plans.ask)
        broker.pull_plans.takers = self.takers
        self._auth_gate: AuthGate | None = None
        self._plain_gate: PlainGate | None = None
        self._forwarding: Forwarding | None = None
        self._automatic_topics: AutomaticTopics | None = None
        if auth.is_authenticating:
            self._auth_gate = AuthGate(auth, broker.auth, config.broker_cluster_name, self.handlers)
            gate = self._auth_gate
            self.use_gate(GatePlace.USERS, gate, gate.admits_at_sight, gate.admits_undecoded)
        if broker.slave is not None and broker.set_state is not None:
            self._forwarding = Forwarding(config, broker.loop, nameservers, broker.set_state, broker.slave)
            self.use_gate(GatePlace.FORWARDING, self._forwarding, self._forwarding.admits_at_sight)
        if broker.slave is None and nameservers is not None and config.auto_create_topic_on_all_brokers:
            self._automatic_topics = AutomaticTopics(broker, nameservers)
        self._in_flight_gate, self._rate_gate = InFlightGate(config), RateGate(config, auth.authentication_whitelist)
        broker.on_settings_changed.append(self._use_limits)
        self._use_limits()

    def _use_limits(self) -> None:
        """Installs only the gates that have something to refuse."""
        config = self.broker.config
        counts = config.max_requests_in_flight_per_connection > 0
        self.use_gate(GatePlace.IN_FLIGHT, self._in_flight_gate if counts else None)
        self.use_gate(GatePlace.RATES, self._rate_gate if has_rates(config) else None)

    def open(self, advertised_host: bytes | None = None) -> Recovered:
        """As ``Broker.open``; raises UsageError, too, if the files of ACL 1.0 cannot be used."""
        auth = self.broker.auth_settings
        if auth.enforces_plain:
            self._plain_gate = PlainGate(auth.plain_home, self.broker.config.broker_cluster_name, self.handlers)
            self.use_gate(GatePlace.USERS, self._plain_gate)
        return self.broker.open(advertised_host)

    async def run(self) -> None:
        """Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.broker.run)
            if self._plain_gate is not None:
                nursery.start_soon(self._plain_gate.watch)
            if self._forwarding is not None:
                nursery.start_soon(self._forwarding.run)
            if self._automatic_topics is not None:
                nursery.start_soon(self._automatic_topics.run)

    def as_refused(self, error: Exception) -> Refused | None:
        if isinstance(error, StorageError) and self._seldom.is_due(str(error)):
            log.error("event=store-unreadable reason=%r hint=%r", str(error), error.hint)
        return as_refused(error) or super().as_refused(error)

    def connection_closed(self, connection: Connection) -> None:
        if self._auth_gate is not None:
            self._auth_gate.connection_closed(connection)
        if self._forwarding is not None:
            self._forwarding.client_closed(connection)
        self.broker.peer_gone(connection)


def broker_handlers(broker: Broker, sends: SendHandlers) -> dict[int, Handler]:
    table = (
        sends.handlers() | master_handlers(broker.master_admin, broker.table_watch) | user_handlers(broker.auth_admin)
    )
    for handlers in (
        pull_handlers, return_handlers, client_handlers, pop_handlers, lite_handlers, query_handlers, table_handlers,
        topic_handlers, group_handlers, config_and_state_handlers,
    ):  # fmt: skip
        table |= handlers(broker)
    if broker.slave is not None:
        table |= SlaveRefusals(broker.config, broker.slave).handlers(table)
    if broker.set_state is not None and isinstance(broker.replicas, SetMaster):
        members = MemberRequests(broker.set_state, broker.replicas)
        sends.may_put = members.may_put
        table |= members.handlers(table)
    return table
