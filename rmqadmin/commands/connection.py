"""Who is online: a group's clients and what they subscribe to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from rmqadmin.call import Call
from rmqadmin.consumption import GroupClients, brokers_of_group, read_clients
from rmqadmin.mqadmin_text import hash_order
from rmqadmin.options import AskedBroker, ConsumerGroup
from rmqadmin.results import Result, Row, doc
from rmqproto.bodies import BrokerData
from rmqproto.codes import version_name
from rmqproto.errors import NotFoundError
from rmqproto.java_hash import java_hash


class ClientRow(Row, frozen=True):
    client_id: Annotated[str, doc("client id", key=True)]
    client_addr: Annotated[str, doc("where it connects from")]
    language: Annotated[str | None, doc("what it is written in")]
    version: Annotated[str, doc("release of its client library")]
    broker_names: Annotated[list[str], doc("brokers that it is connected to")]


class Subscription(msgspec.Struct, frozen=True):
    """What a group wants of a topic."""

    topic: str
    expression_type: str | None
    expression: str

    def __str__(self) -> str:
        return f"{self.topic} ({self.expression})"


class GroupFacts(Row, frozen=True):
    consume_type: Annotated[str | None, doc("CONSUME_PASSIVELY (push) or CONSUME_ACTIVELY (pull)")]
    message_model: Annotated[str | None, doc("CLUSTERING or BROADCASTING")]
    consume_from_where: Annotated[str | None, doc("where it begins in a queue without an offset")]
    subscriptions: Annotated[list[Subscription], doc("topic, expression type, expression")]


class ConsumerClients(Result, frozen=True):
    """Online clients and subscriptions of a group."""

    row_type: ClassVar[type[Row]] = ClientRow
    clients: GroupClients

    def rows(self) -> Sequence[ClientRow]:
        known = [
            (connection, self.clients.broker_names[client_id])
            for client_id, connection in self.clients.connections.items()
        ]
        known += [(twin.connection, twin.broker_names) for twin in self.clients.twins]
        return [
            ClientRow(
                client_id=connection.client_id,
                client_addr=connection.client_addr,
                language=connection.language,
                version=version_name(connection.version),
                broker_names=broker_names,
            )
            for connection, broker_names in known
        ]

    def summary(self) -> GroupFacts:
        return GroupFacts(
            consume_type=self.clients.consume_type,
            message_model=self.clients.message_model,
            consume_from_where=self.clients.consume_from_where,
            subscriptions=[
                Subscription(topic, wanted.expression_type, wanted.sub_string)
                for topic, wanted in self.clients.subscriptions.items()
            ],
        )

    def mqadmin_text(self) -> str:
        text = f"{'#ClientId':36} {'#ClientAddr':22} {'#Language':10} #Version\n"
        for row in self.rows():
            text += f"{row.client_id:36} {row.client_addr:22} {row.language or 'null':10} {row.version}\n"
        facts = self.summary()
        text += f"\nBelow is subscription:\n{'#Topic':20} #SubExpression\n"
        by_topic = {wanted.topic: wanted for wanted in facts.subscriptions}
        for topic in hash_order(by_topic, java_hash):  # mqadmin keeps them in a map, whatever order the broker sent
            text += f"{topic:20} {by_topic[topic].expression}\n"
        return text + (
            f"\nConsumeType: {facts.consume_type}\nMessageModel: {facts.message_model}\n"
            f"ConsumeFromWhere: {facts.consume_from_where}\n"
        )


def consumer_connection(
    call: Call,
    consumer_group: ConsumerGroup,
    broker_addr: AskedBroker = None,
) -> ConsumerClients:
    """Every broker is asked that may know the group, and the answers are joined; mqadmin asks one at random.

    Examples:
      rmqadmin consumerConnection -g OrderGroup
      rmqadmin -o json consumerConnection -g OrderGroup
    """
    group = consumer_group.strip()
    return ConsumerClients(online_clients(call, group, group_brokers(call, group, broker_addr)))


def group_brokers(call: Call, group: str, broker_addr: str | None) -> list[BrokerData]:
    """The broker of ``-b``, or all that may know the group."""
    if broker_addr is None:
        return brokers_of_group(call.admin, group)
    return [BrokerData(broker_addrs={0: broker_addr.strip()}, broker_name=broker_addr.strip())]


def online_clients(call: Call, group: str, brokers: Sequence[BrokerData]) -> GroupClients:
    """The clients of a group that is online; NotFoundError for one that is not."""
    clients = read_clients(call.admin, brokers, group)
    if not clients.connections:
        raise NotFoundError(f"no client of the group {group} is online", hint="`rmqadmin consumerProgress` shows lag.")
    return clients
