"""The producers of a broker, as rows."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from rmqadmin.core.results import TIME, Row, doc
from rmqproto.bodies.groups import ProducerInfo
from rmqproto.codes import version_name


class ProducerRow(Row, frozen=True):
    group: Annotated[str, doc("producer group", key=True)]
    client_id: Annotated[str | None, doc("client id; none if the group has no client any more", key=True)]
    client_addr: Annotated[str | None, doc("where it connects from")]
    language: Annotated[str | None, doc("what it is written in")]
    version: Annotated[str | None, doc("release of its client library")]
    last_heard_ms: Annotated[int | None, TIME, doc("when its last heartbeat came")]


def producer_rows(by_group: Mapping[str, Sequence[ProducerInfo]]) -> list[ProducerRow]:
    """One row a client, and one for a group without any."""
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
        for group in sorted(by_group)
        for client in sorted(by_group[group], key=lambda client: client.client_id) or [nobody]
    ]
