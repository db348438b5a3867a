"""``queryMsgById``: shows one message and what became of it; can also send it again, or push it to a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LmqParent, Topic, TrueFalse
from rmqadmin.cli.options.message_options import BodyFormat, PushClient, PushGroup
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.direct_push import Pushed, push
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_results import Messages, show
from rmqadmin.core.messages.message_rows import checked_charset
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.topics.routes import writable_queues
from rmqclient.message import Message, SendResult
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicRoute
from rmqproto.errors import NotFoundError

RESEND_GROUP = "ReSendMsgById"


class ResentRow(Row, frozen=True):
    original_message_id: Annotated[str, doc("id that was asked for", key=True)]
    message_id: Annotated[str | None, doc("unique key of the copy: the same")]
    offset_message_id: Annotated[str | None, doc("id that the broker gave the copy")]
    broker_name: Annotated[str, doc("broker that it went to")]
    queue_id: Annotated[int, doc("queue that it went to")]
    queue_offset: Annotated[int | None, doc("place of the copy in the queue")]
    status: Annotated[str | None, doc("SEND_OK, or what the broker could not promise; none under --dry-run")]


class Resent(Result, frozen=True):
    """With -s true: messages sent once more."""

    row_type: ClassVar[type[Row]] = ResentRow
    sent: list[ResentRow]
    results: list[SendResult]

    def rows(self) -> Sequence[ResentRow]:
        return self.sent

    def mqadmin_text(self) -> str:
        return "".join(
            f"prepare resend msg. originalMsgId={row.original_message_id}{send_result_text(result)}"
            for row, result in zip(self.sent, self.results, strict=True)
        )


def send_result_text(result: SendResult) -> str:
    """``SendResult.toString``."""
    queue = result.queue
    return (
        f"SendResult [sendStatus={result.status.name}, msgId={result.message_id}, "
        f"offsetMsgId={result.offset_message_id}, messageQueue=MessageQueue [topic={queue.topic}, "
        f"brokerName={queue.broker_name}, queueId={queue.queue_id}], queueOffset={result.queue_offset}, "
        "recallHandle=null]"
    )


def query_msg_by_id(
    call: Call,
    topic: Topic,
    msg_id: Annotated[
        str, Value.NAME, typer.Option("-i", "--msgId", metavar="ID[,ID...]", help="Unique keys or offset ids.")
    ],
    consumer_group: PushGroup = None,
    client_id: PushClient = None,
    send_message: Annotated[
        TrueFalse | None, typer.Option("-s", "--sendMessage", case_sensitive=False, help="Send it again.")
    ] = None,
    unit_name: Annotated[
        str | None, typer.Option("-u", "--unitName", help="Accepted as in mqadmin; has no effect.")
    ] = None,
    body_format: BodyFormat = None,
    cluster: LmqParent = None,
) -> Messages | Resent | Pushed:
    """Takes either id: the producer's unique key or the broker's offset id.

    Examples:
      rmqadmin queryMsgById -t OrderTopic -i 7F00000100002A9F00000000000007DA
      rmqadmin -o json queryMsgById -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009
      rmqadmin queryMsgById -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009 -s true --dry-run
    """
    route = call.admin.topic_route((cluster or topic).strip())
    messages = [_one(call, route, topic.strip(), part.strip()) for part in msg_id.split(",") if part.strip()]
    if consumer_group is not None and client_id is not None:
        return push(call.admin, messages, consumer_group.strip(), client_id.strip(), dry_run=call.dry_run)
    if send_message is TrueFalse.TRUE:
        return _resend(call, route, messages)
    return Messages(
        show(
            call.admin,
            messages,
            None if body_format is None else checked_charset("-f", body_format),
            call.notice,
            leave_files=call.as_mqadmin,
        )
    )


def _one(call: Call, route: TopicRoute, topic: str, message_id: str) -> FoundMessage:
    found = lookup.by_id(call.admin, route, topic, message_id)
    if not found:
        raise NotFoundError(
            f"no message of the topic {topic} with the id {message_id} was found", hint=lookup.INDEX_HINT
        )
    return found[0]


def _queue_for(message: FoundMessage, queues: Sequence[tuple[MessageQueue, str]]) -> tuple[MessageQueue, str]:
    """The message's own queue if it is among ``queues``, else the first of them. A dry run names it."""
    own = (message.broker_name, message.stored.queue_id)
    return next((found for found in queues if (found[0].broker_name, found[0].queue_id) == own), queues[0])


def _resend(call: Call, route: TopicRoute, messages: Sequence[FoundMessage]) -> Resent:
    """Sends messages unchanged, to the queues they are in."""
    sent: list[ResentRow] = []
    results: list[SendResult] = []
    for message in messages:
        stored = message.stored
        queue, addr = _queue_for(message, writable_queues(route, stored.topic))
        copy = Message(stored.topic, stored.plain_body(), properties=message.properties, flag=stored.flag)
        result = None if call.dry_run else call.admin.send_message(addr, queue, copy, group=RESEND_GROUP)
        results += [result] if result else []
        sent.append(
            ResentRow(
                original_message_id=message.message_id,
                message_id=result.message_id if result else None,
                offset_message_id=result.offset_message_id if result else None,
                broker_name=queue.broker_name,
                queue_id=result.queue.queue_id if result else queue.queue_id,
                queue_offset=result.queue_offset if result else None,
                status=result.status.name if result else None,
            )
        )
    return Resent(sent, results)
