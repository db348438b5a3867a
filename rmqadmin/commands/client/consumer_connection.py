"""``consumerConnection``: shows a group's online clients and their subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import AskedBroker, ConsumerGroup
from rmqadmin.core.groups.consumption import GroupClients, Subscription, group_brokers, online_clients
from rmqadmin.core.results import Result, Row, doc
from rmqproto.codes import version_name


class ClientRow(Row, frozen=True):
    client_id: Annotated[str, doc("client id", key=True)]
    client_addr: Annotated[str, doc("where it connects from")]
    language: Annotated[str | None, doc("what it is written in", minor=True)]
    version: Annotated[str, doc("release of its client library")]
    broker_names: Annotated[list[str], doc("brokers that it is connected to")]


class GroupConsumption(Row, frozen=True):
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

    def summary(self) -> GroupConsumption:
        return GroupConsumption(
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
        for topic in sorted(by_topic):
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
    """Asks every broker that may know the group and joins the answers; mqadmin asks one at random.

    Examples:
      rmqadmin consumerConnection -g OrderGroup
      rmqadmin -o json consumerConnection -g OrderGroup
    """
    group = consumer_group.strip()
    brokers = group_brokers(call.admin, group, broker_addr)
    return ConsumerClients(online_clients(call.admin, group, brokers, call.answers))
