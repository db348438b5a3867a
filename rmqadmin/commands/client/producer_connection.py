"""``producerConnection``: shows the online clients of a producer group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import Result, Row, doc
from rmqproto.bodies.groups import ClientConnection
from rmqproto.codes import ResponseCode, version_name
from rmqproto.errors import NotFoundError, RefusedError


class ProducerClientRow(Row, frozen=True):
    client_id: Annotated[str, doc("client id", key=True)]
    client_addr: Annotated[str, doc("where it connects from")]
    language: Annotated[str | None, doc("what it is written in")]
    version: Annotated[str, doc("release of its client library")]
    broker_names: Annotated[list[str], doc("brokers that it is connected to")]


class ProducerClients(Result, frozen=True):
    """Online clients of a producer group; both maps have the same keys, one a client."""

    row_type: ClassVar[type[Row]] = ProducerClientRow
    connections: dict[str, ClientConnection]
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
    producer_group: Annotated[
        str, Value.GROUP, typer.Option("-g", "--producerGroup", metavar="GROUP", help="Producer group.")
    ],
    topic: Topic,
) -> ProducerClients:
    """Asks every broker of the topic and joins the answers; mqadmin asks one at random.

    Examples:
      rmqadmin producerConnection -g OrderProducer -t OrderTopic
      rmqadmin -o json producerConnection -g OrderProducer -t OrderTopic
    """
    group = producer_group.strip()
    brokers = targets.by_selected_addr(call.admin.topic_route(topic.strip()).broker_datas)

    def ask(addr: str) -> list[ClientConnection]:
        try:
            return call.admin.producer_connection(addr, group).connection_set
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
            f"no client of the producer group {group} is online",
            hint="`rmqadmin producer -b HOST:PORT` lists all producers of a broker.",
        )
    return ProducerClients(connections, broker_names)
