"""``getConsumerStatus``: shows the queue offsets that a group's online clients hold themselves. Apache's tools have
this class, but mqadmin does not list it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import online_clients
from rmqadmin.core.mqadmin_text import cut, hash_order, queue_hash
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.options.command_options import Group, Topic
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError


class ClientOffsetRow(Row, frozen=True):
    client_id: Annotated[str, doc("client id", key=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    consumer_offset: Annotated[int, doc("queue offset that the client stands at", vital=True)]


class ClientOffsets(Result, frozen=True):
    """Each client's own offsets of a topic, one row a queue."""

    row_type: ClassVar[type[Row]] = ClientOffsetRow
    title: str
    by_client: dict[str, dict[MessageQueue, int]]

    def rows(self) -> Sequence[ClientOffsetRow]:
        return [
            ClientOffsetRow(
                client_id=client_id, broker_name=queue.broker_name, queue_id=queue.queue_id, consumer_offset=offset
            )
            for client_id, offsets in sorted(self.by_client.items())
            for queue, offset in sorted(offsets.items())
        ]

    def mqadmin_text(self) -> str:
        text = f"get consumer status from client. {self.title}\n"
        text += f"{'#clientId':50}  {'#brokerName':15}  {'#queueId':15}  {'#offset':20}\n"
        for client_id, offsets in self.by_client.items():
            for queue in hash_order(offsets, queue_hash):
                text += f"{cut(client_id, 50):50}  {cut(queue.broker_name, 15):15}  "
                text += f"{queue.queue_id:<15}  {offsets[queue]:<20}\n"
        return text


def get_consumer_status(
    call: Call,
    group: Group,
    topic: Topic,
    origin_client_id: Annotated[
        str | None, typer.Option("-i", "--originClientId", metavar="CLIENT", help="This client only.")
    ] = None,
) -> ClientOffsets:
    """A client's own offset may be ahead of the one it has committed, which consumerProgress shows. Clients that pop,
    and clients of 5.x that use a proxy, have no such offsets.

    Examples:
      rmqadmin getConsumerStatus -g OrderGroup -t OrderTopic
      rmqadmin getConsumerStatus -g OrderGroup -t OrderTopic -i example
    """
    group, topic = group.strip(), topic.strip()
    client_id = (origin_client_id or "").strip()
    brokers = call.admin.topic_route(topic).broker_datas
    clients = online_clients(call.admin, group, brokers)
    if client_id and client_id not in clients.connections:
        raise NotFoundError(
            f"the group {group} has no client {client_id}", hint=f"It has: {', '.join(sorted(clients.connections))}."
        )
    names = set().union(*clients.broker_names.values())  # other brokers know no client of the group
    knowing = [broker for broker in brokers if broker.broker_name in names]
    found: dict[str, dict[MessageQueue, int]] = {}
    for told in targets.ask_each(
        lambda addr: call.admin.consumer_status(addr, topic, group, client_id or None), targets.selected_addrs(knowing)
    ):
        for each, offsets in told.items():
            found.setdefault(each, {}).update(offsets)
    return ClientOffsets(f"group={group}, topic={topic}, originClientId={client_id}", found)
