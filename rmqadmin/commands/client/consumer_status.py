"""``consumerStatus``: shows what consumers say about themselves, asked through their brokers; all of a group, or one in
detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import AskedBroker, ConsumerGroup, Jstack
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.groups.client_answers import ask_client, ask_clients
from rmqadmin.core.groups.client_status import ClientStatus, GroupStatus, write_files
from rmqadmin.core.groups.consumption import GroupClients, group_brokers, online_clients
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import NotFoundError


def consumer_status(
    call: Call,
    consumer_group: ConsumerGroup,
    client_id: Annotated[
        str | None, Value.CLIENT, typer.Option("-i", "--clientId", metavar="CLIENT", help="Show this client in detail.")
    ] = None,
    broker_addr: AskedBroker = None,
    jstack: Jstack = False,
) -> GroupStatus | ClientStatus:
    """Asks every client, through a broker that it is connected to. mqadmin leaves the answers in files in the current
    directory; --output mqadmin does the same.

    Examples:
      rmqadmin consumerStatus -g OrderGroup
      rmqadmin consumerStatus -g OrderGroup -i example
      rmqadmin -o json consumerStatus -g OrderGroup -s
    """
    group = consumer_group.strip()
    brokers = group_brokers(call.admin, group, broker_addr)
    clients = online_clients(call.admin, group, brokers, call.answers)
    if client_id is not None:
        return _one(call, group, client_id.strip(), clients, brokers, jstack)
    result = GroupStatus(ask_clients(call.admin, group, clients, brokers, jstack=jstack), call.now_ms(), jstack)
    if call.as_mqadmin:
        write_files(result)
    return result


def _one(
    call: Call, group: str, client_id: str, clients: GroupClients, brokers: Sequence[BrokerData], jstack: bool
) -> ClientStatus:
    if client_id not in clients.connections:
        raise NotFoundError(
            f"the group {group} has no client {client_id}", hint=f"It has: {', '.join(sorted(clients.connections))}."
        )
    info = ask_client(call.admin, group, client_id, clients, brokers, jstack=jstack)
    return ClientStatus(client_id, info, call.now_ms())
