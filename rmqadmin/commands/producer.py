"""Who sends: the clients of a producer group, and all producers of a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.mqadmin_text import hash_order, java_text
from rmqadmin.options import Topic
from rmqadmin.results import TIME, Result, Row, doc
from rmqproto.bodies import Connection, ProducerInfo
from rmqproto.codes import ResponseCode, version_name
from rmqproto.errors import NotFoundError, RefusedError
from rmqproto.java_hash import java_hash

# --- producerConnection ----------------------------------------------------------------------------------------------


class ProducerClientRow(Row, frozen=True):
    client_id: Annotated[str, doc("client id", key=True)]
    client_addr: Annotated[str, doc("where it connects from")]
    language: Annotated[str | None, doc("what it is written in")]
    version: Annotated[str, doc("release of its client library")]
    broker_names: Annotated[list[str], doc("brokers that it is connected to")]


class ProducerClients(Result, frozen=True):
    """Online clients of a producer group; both maps have the same keys, one a client."""

    row_type: ClassVar[type[Row]] = ProducerClientRow
    connections: dict[str, Connection]
    broker_names: dict[str, list[str]]

    def rows(self) -> Sequence[ProducerClientRow]:
        return [
            ProducerClientRow(
                client_id=connection.client_id,
                client_addr=connection.client_addr,
                language=connection.language,
                version=version_name(connection.version),
                broker_names=self.broker_names[client_id],
            )
            for client_id, connection in self.connections.items()
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            f"{at:04}  {row.client_id:32} {row.client_addr:22} {java_text(row.language):8} {row.version}\n"
            for at, row in enumerate(self.rows(), 1)
        )


def producer_connection(
    call: Call,
    producer_group: Annotated[str, typer.Option("-g", "--producerGroup", metavar="GROUP", help="Producer group.")],
    topic: Topic,
) -> ProducerClients:
    """Every broker of the topic is asked, and the answers are joined; mqadmin asks one at random.

    Examples:
      rmqadmin producerConnection -g OrderProducer -t OrderTopic
      rmqadmin -o json producerConnection -g OrderProducer -t OrderTopic
    """
    group = producer_group.strip()
    brokers = call.admin.topic_route(topic.strip()).broker_datas
    addrs = [(broker.broker_name, addr) for broker in brokers if (addr := broker.selected_addr()) is not None]

    def ask(named: tuple[str, str]) -> list[Connection]:
        try:
            return call.admin.producer_connection(named[1], group).connection_set
        except RefusedError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:
                raise
            return []  # nobody of the group is online there

    connections: dict[str, Connection] = {}
    broker_names: dict[str, list[str]] = {}
    for (name, _), found in zip(addrs, targets.ask_each(ask, addrs), strict=True):
        seen: Counter[str] = Counter()
        for connection in found:
            # One client has a connection to each broker; two to one broker are two clients that took one id.
            seen[connection.client_id] += 1
            key = f"{connection.client_id} {seen[connection.client_id]}"
            connections.setdefault(key, connection)
            broker_names.setdefault(key, []).append(name)
    if not connections:
        raise NotFoundError(
            f"no client of the producer group {group} is online",
            hint="`rmqadmin producer -b HOST:PORT` lists all producers of a broker.",
        )
    return ProducerClients(connections, broker_names)


# --- producer --------------------------------------------------------------------------------------------------------


class ProducerRow(Row, frozen=True):
    group: Annotated[str, doc("producer group", key=True)]
    client_id: Annotated[str | None, doc("client id; none where the group has no client any more", key=True)]
    client_addr: Annotated[str | None, doc("where it connects from")]
    language: Annotated[str | None, doc("what it is written in")]
    version: Annotated[str | None, doc("release of its client library")]
    last_heard_ms: Annotated[int | None, TIME, doc("when its last heartbeat came")]


class Producers(Result, frozen=True):
    """Producers of a broker."""

    row_type: ClassVar[type[Row]] = ProducerRow
    by_group: dict[str, list[ProducerInfo]]

    def rows(self) -> Sequence[ProducerRow]:
        nobody = ProducerInfo(client_id="")
        return [
            ProducerRow(
                group=group,
                client_id=client.client_id or None,
                client_addr=client.remote_ip.removeprefix("/") or None,
                language=client.language,
                version=version_name(client.version) if client.client_id else None,
                last_heard_ms=client.last_update_timestamp or None,
            )
            for group in sorted(self.by_group)
            for client in sorted(self.by_group[group], key=lambda client: client.client_id) or [nobody]
        ]

    def mqadmin_text(self) -> str:
        text = ""
        for group in hash_order(self.by_group, java_hash):
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
    broker: Annotated[str, typer.Option("-b", "--broker", metavar="HOST:PORT", help="The broker's address.")],
) -> Producers:
    """One row a client. Clients have an inner producer of the group CLIENT_INNER_PRODUCER each, consumers too.

    Examples:
      rmqadmin producer -b 127.0.0.1:10911
      rmqadmin -o json producer -b 127.0.0.1:10911
    """
    from rmqclient.addresses import split_address

    split_address(broker.strip())
    return Producers(call.admin.all_producers(broker.strip()))
