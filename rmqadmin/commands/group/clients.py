"""Consumers and producers that are online, and what consumers report about themselves through their brokers."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER, AskedBroker, ConsumerGroup, Jstack, Topic
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core import targets
from rmqadmin.core.groups.client_status import ClientStatus, GroupStatus, ProducerRow, producer_rows, write_files
from rmqadmin.core.groups.consumption import (
    GroupClients,
    Subscription,
    ask_client,
    ask_clients,
    group_brokers,
    online_clients,
)
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import ResultOf, Row, doc, row_of
from rmqproto.bodies.groups import ClientConnection, ProducerInfo
from rmqproto.codes import ResponseCode, version_name
from rmqproto.errors import NotFoundError, RefusedError
from rmqproto.hosts import split_address


class ClientRow(Row, frozen=True):
    client_id: Annotated[str, doc("client id", key=True)]
    client_addr: Annotated[str, doc("where it connects from")]
    language: Annotated[str | None, doc("what it is written in", minor=True)]
    version: Annotated[str, doc("release of its client library")]
    broker_names: Annotated[list[str], doc("brokers that it is connected to")]


def client_row(client: ClientConnection, broker_names: list[str]) -> ClientRow:
    return row_of(ClientRow, client, version=version_name(client.version), broker_names=broker_names)


class GroupConsumption(Row, frozen=True):
    consume_type: Annotated[str | None, doc("CONSUME_PASSIVELY (push) or CONSUME_ACTIVELY (pull)")]
    message_model: Annotated[str | None, doc("CLUSTERING or BROADCASTING")]
    consume_from_where: Annotated[str | None, doc("where it begins in a queue without an offset")]
    subscriptions: Annotated[list[Subscription], doc("topic, expression type, expression")]


class ConsumerClients(ResultOf[ClientRow], frozen=True):
    """Online clients and subscriptions of a group."""

    clients: GroupClients

    def rows(self) -> Sequence[ClientRow]:
        names = self.clients.broker_names
        found = [client_row(one, names[client_id]) for client_id, one in self.clients.connections.items()]
        return found + [client_row(twin.connection, twin.broker_names) for twin in self.clients.twins]

    def summary(self) -> GroupConsumption:
        wanted = self.clients.subscriptions.items()
        found = [Subscription(topic, one.expression_type, one.sub_string) for topic, one in wanted]
        return row_of(GroupConsumption, self.clients, subscriptions=found)

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


def consumer_connection(call: Call, consumer_group: ConsumerGroup, broker_addr: AskedBroker = None) -> ConsumerClients:
    """Asks every broker that may know the group and joins the answers; mqadmin asks one at random.

    rmqadmin consumerConnection -g OrderGroup
    rmqadmin -o json consumerConnection -g OrderGroup
    """
    brokers = group_brokers(call.admin, consumer_group, broker_addr)
    return ConsumerClients(online_clients(call.admin, consumer_group, brokers, call.answers))


def consumer_status(
    call: Call,
    consumer_group: ConsumerGroup,
    client_id: Annotated[str | None, Value.CLIENT, option("-i", "--clientId", "Show this client in detail.")] = None,
    broker_addr: AskedBroker = None,
    jstack: Jstack = False,
) -> GroupStatus | ClientStatus:
    """Asks every client, through a broker that it is connected to. mqadmin leaves the answers in files in the current
    directory; --output mqadmin does the same.

      rmqadmin consumerStatus -g OrderGroup
      rmqadmin consumerStatus -g OrderGroup -i example
      rmqadmin -o json consumerStatus -g OrderGroup -s
    """
    brokers = group_brokers(call.admin, consumer_group, broker_addr)
    clients = online_clients(call.admin, consumer_group, brokers, call.answers)
    if client_id is None:
        answers = ask_clients(call.admin, consumer_group, clients, brokers, jstack=jstack)
        result = GroupStatus(answers, call.now_ms(), jstack)
        if call.as_mqadmin:
            write_files(result)
        return result
    if client_id not in clients.connections:
        known = f"It has: {', '.join(sorted(clients.connections))}."
        raise NotFoundError(f"the group {consumer_group} has no client {client_id}", hint=known)
    info = ask_client(call.admin, consumer_group, client_id, clients, brokers, jstack=jstack)
    return ClientStatus(client_id, info, call.now_ms())


class ProducerClients(ResultOf[ClientRow], frozen=True):
    """Online clients of a producer group; both maps have the same keys, one a client."""

    connections: dict[str, ClientConnection]
    broker_names: dict[str, list[str]]

    def rows(self) -> Sequence[ClientRow]:
        return [client_row(one, self.broker_names[client_id]) for client_id, one in self.connections.items()]

    def mqadmin_text(self) -> str:
        return "".join(
            f"{at:04}  {row.client_id:32} {row.client_addr:22} {java_text(row.language):8} {row.version}\n"
            for at, row in enumerate(self.rows(), 1)
        )


def producer_connection(
    call: Call,
    producer_group: Annotated[str, Value.GROUP, option("-g", "--producerGroup", "Producer group.")],
    topic: Topic,
) -> ProducerClients:
    """Asks every broker of the topic and joins the answers; mqadmin asks one at random.

    rmqadmin producerConnection -g OrderProducer -t OrderTopic
    rmqadmin -o json producerConnection -g OrderProducer -t OrderTopic
    """
    brokers = targets.by_selected_addr(call.admin.topic_route(topic).broker_datas)

    def ask(addr: str) -> list[ClientConnection]:
        try:
            return call.admin.producer_connection(addr, producer_group).connection_set
        except RefusedError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:
                raise
            return []  # no client of the group is online there

    connections: dict[str, ClientConnection] = {}
    broker_names: dict[str, list[str]] = {}
    for addr, found in call.answers.of(ask, brokers).items():
        seen: Counter[str] = Counter()
        for connection in found:
            # A client has one connection to each broker, so two to the same broker are two clients with the same id.
            seen[connection.client_id] += 1
            key = f"{connection.client_id} {seen[connection.client_id]}"
            connections.setdefault(key, connection)
            broker_names.setdefault(key, []).append(brokers[addr].broker_name)
    if not connections:
        raise NotFoundError(
            f"no client of the producer group {producer_group} is online",
            hint="`rmqadmin producer -b HOST:PORT` lists all producers of a broker.",
        )
    return ProducerClients(connections, broker_names)


class Producers(ResultOf[ProducerRow], frozen=True):
    """Producers of a broker."""

    by_group: dict[str, list[ProducerInfo]]

    def rows(self) -> Sequence[ProducerRow]:
        return producer_rows(self.by_group)

    def mqadmin_text(self) -> str:
        text = ""
        for group in sorted(self.by_group):
            clients = self.by_group[group]
            text += "" if clients else f"producer group ({group}) instances are empty\n"
            for one in clients:
                text += (
                    f"producer group ({group}) instance : clientId={one.client_id},remoteIP={one.remote_ip}, "
                    f"language={java_text(one.language)}, version={one.version}, "
                    f"lastUpdateTimestamp={one.last_update_timestamp}\n"
                )
        return text


def producer(
    call: Call,
    broker: Annotated[str, A_BROKER, Value.BROKER_ADDR, option("-b", "--broker", "The broker's address.")],
) -> Producers:
    """One row a client. Every client, consumers included, has an inner producer of the group CLIENT_INNER_PRODUCER.

    rmqadmin producer -b 127.0.0.1:10911
    rmqadmin -o json producer -b 127.0.0.1:10911
    """
    split_address(broker)
    return Producers(call.admin.all_producers(broker))
