"""Where a sent message went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rmqadmin.core import targets
from rmqadmin.core.near_names import near_name
from rmqadmin.core.results import Notice, Row, doc
from rmqproto.bodies.base import MessageQueue

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient
    from rmqclient.message import SendResult


class SentRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker that it went to")]
    queue_id: Annotated[int | None, doc("queue that it went to")]
    status: Annotated[
        str | None, doc("SEND_OK, or what the broker could not promise; none under --dry-run", vital=True)
    ]
    message_id: Annotated[str | None, doc("unique key", key=True)]
    offset_message_id: Annotated[str | None, doc("id made by the broker", wide=True)]
    queue_offset: Annotated[int | None, doc("its place in the queue")]


def sent_row(queue: MessageQueue, result: SendResult | None) -> SentRow:
    """``result``: the broker's answer; None for a message that is not sent."""
    return SentRow(
        broker_name=queue.broker_name,
        queue_id=result.queue.queue_id if result else queue.queue_id,
        status=result.status.name if result else None,
        message_id=result.message_id if result else None,
        offset_message_id=result.offset_message_id if result else None,
        queue_offset=result.queue_offset if result else None,
    )


def say_if_new(admin: AdminClient, topic: str, notice: Notice, *, dry_run: bool) -> None:
    """A notice if the first message creates the topic, with the name that may have been meant."""
    if targets.find_route(admin, topic) is not None:
        return
    near = near_name(topic, admin.topic_list())
    meant = f"; did you mean {near}?" if near else ""
    does = "would make" if dry_run else "makes"
    notice(f"there is no topic {topic}: the broker {does} it for this message{meant}")
