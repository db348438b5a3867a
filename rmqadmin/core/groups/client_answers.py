"""What the clients of a group say about themselves. Each is asked through a broker that it is connected to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import GroupClients
from rmqproto.bodies.groups import ClientConnection
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumerRunningInfo
from rmqproto.errors import NotFoundError, RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class ClientAnswer(msgspec.Struct, frozen=True):
    """One client and its answer; ``info`` is None if it did not answer, and ``error`` says why."""

    connection: ClientConnection
    info: ConsumerRunningInfo | None
    error: str | None = None


def ask_client(
    admin: AdminClient,
    group: str,
    client_id: str,
    clients: GroupClients,
    brokers: Sequence[BrokerData],
    *,
    jstack: bool = False,
) -> ConsumerRunningInfo:
    """One client's answer, through a broker that it is connected to. NotFoundError if no such broker can be asked."""
    addrs = {broker.broker_name: broker.selected_addr() for broker in brokers}
    addr = next((addr for name in clients.broker_names[client_id] if (addr := addrs.get(name))), None)
    if addr is None:
        raise NotFoundError(f"no broker that {client_id} is connected to can be asked")
    return admin.consumer_running_info(addr, group, client_id, jstack=jstack)


def ask_clients(
    admin: AdminClient, group: str, clients: GroupClients, brokers: Sequence[BrokerData], *, jstack: bool = False
) -> list[ClientAnswer]:
    """The answers of all clients. For one that fails, the answer holds the error, and the others are still asked."""

    def ask(connection: ClientConnection) -> ClientAnswer:
        try:
            info = ask_client(admin, group, connection.client_id, clients, brokers, jstack=jstack)
        except RocketMQError as error:
            return ClientAnswer(connection, None, str(error))
        return ClientAnswer(connection, info)

    return targets.ask_each(ask, list(clients.connections.values()))
