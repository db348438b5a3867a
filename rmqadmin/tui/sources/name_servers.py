"""Each name server by itself: whether it answers, and which brokers may not be written by what it tells clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.health.facts import NamesrvFacts, read_routes
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqproto.bodies.routes import ClusterInfo
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def read_name_servers(admin: AdminClient, memory: ClusterMemory) -> list[NamesrvFacts]:
    """Asks each name server for its brokers (106), and for the route of the topic that each broker has under its own
    name (105)."""
    names = sorted({broker.broker_name for broker in memory.brokers})

    def read(addr: str) -> NamesrvFacts:
        try:
            cluster = admin.read(addr, RequestCode.GET_BROKER_CLUSTER_INFO, None, ClusterInfo)
        except RocketMQError as error:
            return NamesrvFacts(addr=addr, error=str(error))
        found = read_routes(admin, NamesrvFacts(addr=addr, cluster=cluster), names)
        return found if found.routes_error is None else NamesrvFacts(addr=addr, error=found.routes_error)

    return targets.ask_each(read, admin.namesrv_addrs)
