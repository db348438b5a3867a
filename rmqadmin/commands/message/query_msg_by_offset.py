"""``queryMsgByOffset``: shows the message at one offset of one queue."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG, BrokerName, Topic
from rmqadmin.cli.options.message_options import BodyFormat, QueueId
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.message_results import Messages, show
from rmqadmin.core.messages.message_rows import checked_charset
from rmqadmin.core.messages.queue_reading import QueuePlace, pulls
from rmqadmin.core.topics.routes import broker_addr_of
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError


def query_msg_by_offset(
    call: Call,
    topic: Topic,
    broker_name: BrokerName,
    queue_id: QueueId,
    offset: Annotated[int, LONG, typer.Option("-o", "--offset", min=0, help="Queue offset.")],
    body_format: BodyFormat = None,
    route_topic: Annotated[
        str | None,
        Value.TOPIC,
        typer.Option("-r", "--routeTopic", metavar="TOPIC", help="Look up this topic's route (LMQ parent)."),
    ] = None,
) -> Messages:
    """If there is no message, shows where the queue begins and ends; mqadmin shows nothing.

    Examples:
      rmqadmin queryMsgByOffset -t OrderTopic -b broker-a -i 0 -o 0
      rmqadmin -o json queryMsgByOffset -t OrderTopic -b broker-a -i 0 -o 5
    """
    charset = None if body_format is None else checked_charset("-f", body_format)
    queue = MessageQueue(topic.strip(), broker_name.strip(), queue_id)
    addr = broker_addr_of(call.admin.topic_route((route_topic or topic).strip()), queue.broker_name)
    pulled = next(pulls(call.admin, QueuePlace(queue, addr, offset, offset + 1), is_exact=True))
    found = pulled.as_java_has_them() if call.as_mqadmin else pulled.messages
    if not found and not call.as_mqadmin:
        raise NotFoundError(
            f"the queue {queue.broker_name}/{queue_id} of {queue.topic} has no message at {offset}",
            hint=f"Its queue offsets go from {pulled.min_offset} to {pulled.max_offset - 1}."
            if pulled.max_offset > pulled.min_offset
            else "It is empty.",
        )
    return Messages(show(call.admin, found, charset, call.notice, leave_files=call.as_mqadmin))
