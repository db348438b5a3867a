"""``producer``: shows all producers of a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqproto.bodies.groups import ProducerInfo
from rmqproto.codes import version_name


class ProducerRow(Row, frozen=True):
    group: Annotated[str, doc("producer group", key=True)]
    client_id: Annotated[str | None, doc("client id; none if the group has no client any more", key=True)]
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
    broker: Annotated[
        str,
        A_BROKER,
        Value.BROKER_ADDR,
        typer.Option("-b", "--broker", metavar="HOST:PORT", help="The broker's address."),
    ],
) -> Producers:
    """One row a client. Every client, consumers included, has an inner producer of the group CLIENT_INNER_PRODUCER.

    Examples:
      rmqadmin producer -b 127.0.0.1:10911
      rmqadmin -o json producer -b 127.0.0.1:10911
    """
    from rmqclient.addresses import split_address

    split_address(broker.strip())
    return Producers(call.admin.all_producers(broker.strip()))
