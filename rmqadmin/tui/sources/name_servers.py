"""Each name server by itself: whether it answers, and which brokers may not be written by what it tells clients."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.health.facts import read_route
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.memory.readings import NameServerReading
from rmqproto.bodies.routes import ClusterInfo
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError
from rmqproto.perm import PERM_WRITE

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def read_name_servers(admin: AdminClient, memory: ClusterMemory) -> dict[str, NameServerReading]:
    """Asks each name server for its brokers (106), and for the route of the topic that each broker has under its own
    name (105). By address."""
    names = sorted({broker.broker_name for broker in memory.brokers})
    readings = targets.ask_each(lambda addr: _read(admin, addr, names), admin.namesrv_addrs)
    return dict(zip(admin.namesrv_addrs, readings, strict=True))


def _read(admin: AdminClient, addr: str, broker_names: list[str]) -> NameServerReading:
    try:
        admin.read(addr, RequestCode.GET_BROKER_CLUSTER_INFO, None, ClusterInfo)
        routes = targets.ask_each(partial(read_route, admin, addr), broker_names)
    except RocketMQError as error:
        return NameServerReading(error=str(error))
    asked = zip(broker_names, routes, strict=True)
    queues = [(name, one) for name, route in asked if route for one in route.queue_datas if one.broker_name == name]
    return NameServerReading({name for name, one in queues if not one.perm & PERM_WRITE})
