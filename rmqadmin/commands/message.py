"""``queryMsgById``: one message with what became of it; sending it once more, and pushing it to a consumer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
import typer

from rmqadmin import lookup, targets
from rmqadmin.call import Call
from rmqadmin.commands.send import writable_queues
from rmqadmin.consumption import brokers_of_group
from rmqadmin.lookup import FoundMessage, Track
from rmqadmin.message_options import BodyFormat, PushClient, PushGroup
from rmqadmin.message_rows import StoredMessageRow, checked_charset, message_values, plain_body
from rmqadmin.mqadmin_text import java_bool, java_text, properties_text
from rmqadmin.options import LmqParent, Topic, TrueFalse
from rmqadmin.output import Format
from rmqadmin.results import Result, Row, doc
from rmqclient.message import Message, SendResult
from rmqproto import properties as props
from rmqproto.bodies import ConsumeDirectlyResult, TopicRoute
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.record import host_text

BODIES_DIR = Path("/tmp/rocketmq/msgbodys")
"""Where mqadmin puts bodies; only ``--output mqadmin`` does too, because its text names the file."""

RESEND_GROUP = "ReSendMsgById"

# --- one message -----------------------------------------------------------------------------------------------------


class MessageRow(StoredMessageRow, frozen=True):
    tracks: Annotated[list[Track], doc("what became of it, by group")]


class Shown(msgspec.Struct, frozen=True):
    """A message with what else is shown of it. ``charset`` is that of ``-f``."""

    message: FoundMessage
    body: bytes
    tracks: list[Track]
    charset: str | None


class Messages(Result, frozen=True):
    """Messages with what became of them."""

    row_type: ClassVar[type[Row]] = MessageRow
    shown: list[Shown]

    def rows(self) -> Sequence[MessageRow]:
        return [_message_row(one) for one in self.shown]

    def mqadmin_text(self) -> str:
        return "".join(mqadmin_block(one) for one in self.shown)


def _message_row(one: Shown) -> MessageRow:
    return MessageRow(**message_values(one.message, one.body), tracks=one.tracks)


def body_path(message_id: str, index: int = 0) -> Path:
    """Where mqadmin puts a body; ``index`` counts the messages of one unique key."""
    return BODIES_DIR / (f"{message_id}_{index}" if index else message_id)


def mqadmin_block(one: Shown, *, index: int = 0, with_offset_id: bool = True, track_end: str = "\n") -> str:
    """A message and its tracks as ``queryMsgById`` prints them; the other queries do so a little differently."""
    from rmqadmin.times import mqadmin_time

    stored, found = one.message.stored, one.message.properties
    fields = [
        *([("OffsetID:", stored.message_id)] if with_offset_id else []),
        ("Topic:", stored.topic),
        ("Tags:", f"[{java_text(found.get(props.TAGS))}]"),
        ("Keys:", f"[{java_text(found.get(props.KEYS))}]"),
        ("Queue ID:", stored.queue_id),
        ("Queue Offset:", stored.queue_offset),
        ("CommitLog Offset:", stored.log_offset),
        ("Reconsume Times:", stored.reconsume_times),
        ("Born Timestamp:", mqadmin_time(stored.born_timestamp_ms, milliseconds=True)),
        ("Store Timestamp:", mqadmin_time(stored.store_timestamp_ms, milliseconds=True)),
        ("Born Host:", host_text(stored.born_host)),
        ("Store Host:", host_text(stored.store_host)),
        ("System Flag:", stored.sys_flag),
        ("Properties:", properties_text(found)),
        ("Message Body Path:", body_path(one.message.message_id, index)),
    ]
    if one.charset is not None:
        fields.append(("Message Body:", one.body.decode(one.charset, "replace")))
    text = "".join(f"{name:20} {value}\n" for name, value in fields)
    text += "\n\n"
    if not one.tracks:
        return text + "WARN: No Consumer"
    return text + "".join(
        f"MessageTrack [consumerGroup={track.group}, trackType={track.state}, "
        f"exceptionDesc={java_text(track.error)}]{track_end}"
        for track in one.tracks
    )


# --- resending and pushing -------------------------------------------------------------------------------------------


class SentRow(Row, frozen=True):
    original_message_id: Annotated[str, doc("id that was asked for", key=True)]
    message_id: Annotated[str | None, doc("unique key of what was sent: the same")]
    offset_message_id: Annotated[str | None, doc("id that the broker gave the copy")]
    broker_name: Annotated[str, doc("broker that it went to")]
    queue_id: Annotated[int, doc("queue that it went to")]
    queue_offset: Annotated[int | None, doc("place of the copy in the queue")]
    status: Annotated[str | None, doc("SEND_OK, or what the broker could not promise; none under --dry-run")]


class Resent(Result, frozen=True):
    """With -s true: messages sent once more."""

    row_type: ClassVar[type[Row]] = SentRow
    sent: list[SentRow]
    results: list[SendResult]

    def rows(self) -> Sequence[SentRow]:
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


class PushedRow(Row, frozen=True):
    message_id: Annotated[str, doc("unique key", key=True)]
    client_id: Annotated[str, doc("consumer that it was pushed to")]
    result: Annotated[str | None, doc("CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION ...; none under --dry-run")]
    remark: Annotated[str | None, doc("what the consumer says about it")]
    spent_ms: Annotated[int | None, doc("how long its listener took")]


class Pushed(Result, frozen=True):
    """With -g and -d: messages consumed once more by one consumer."""

    row_type: ClassVar[type[Row]] = PushedRow
    client_id: str
    pushed: list[tuple[str, ConsumeDirectlyResult | None]]

    def rows(self) -> Sequence[PushedRow]:
        return [
            PushedRow(
                message_id=message_id,
                client_id=self.client_id,
                result=None if result is None else java_text(result.consume_result),
                remark=None if result is None else result.remark,
                spent_ms=None if result is None else result.spent_time_mills,
            )
            for message_id, result in self.pushed
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            f"ConsumeMessageDirectlyResult [order={java_bool(result.order)}, "
            f"autoCommit={java_bool(result.auto_commit)}, "
            f"consumeResult={java_text(result.consume_result)}, remark={java_text(result.remark)}, "
            f"spentTimeMills={result.spent_time_mills}]\n"
            for _, result in self.pushed
            if result is not None
        )


def query_msg_by_id(
    call: Call,
    topic: Topic,
    msg_id: Annotated[str, typer.Option("-i", "--msgId", metavar="ID[,ID...]", help="Unique keys or offset ids.")],
    consumer_group: PushGroup = None,
    client_id: PushClient = None,
    send_message: Annotated[
        TrueFalse | None, typer.Option("-s", "--sendMessage", case_sensitive=False, help="Send it once more.")
    ] = None,
    unit_name: Annotated[
        str | None, typer.Option("-u", "--unitName", help="Taken from mqadmin, without effect.")
    ] = None,
    body_format: BodyFormat = None,
    cluster: LmqParent = None,
) -> Messages | Resent | Pushed:
    """Either id will do: the producer's unique key or the broker's offset id.

    Examples:
      rmqadmin queryMsgById -t OrderTopic -i 7F00000100002A9F00000000000007DA
      rmqadmin -o json queryMsgById -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009
      rmqadmin queryMsgById -t OrderTopic -i 7F000001041D4E0E2F2A69B4378A0009 -s true --dry-run
    """
    route = call.admin.topic_route((cluster or topic).strip())
    messages = [_one(call, route, topic.strip(), part.strip()) for part in msg_id.split(",") if part.strip()]
    if consumer_group is not None and client_id is not None:
        return push(call, messages, consumer_group.strip(), client_id.strip())
    if send_message is TrueFalse.TRUE:
        return _resend(call, route, messages)
    return Messages(show(call, messages, None if body_format is None else checked_charset("-f", body_format)))


def show(call: Call, messages: Sequence[FoundMessage], charset: str | None) -> list[Shown]:
    """Messages with their bodies and tracks. For ``--output mqadmin`` the bodies go into files, too."""
    shown = [
        Shown(message, plain_body(call, message), lookup.tracks(call.admin, message), charset) for message in messages
    ]
    if call.format is Format.MQADMIN:
        BODIES_DIR.mkdir(parents=True, exist_ok=True)
        for index, one in enumerate(shown):
            same = sum(other.message.message_id == one.message.message_id for other in shown[:index])
            body_path(one.message.message_id, same).write_bytes(one.body)
    return shown


def _one(call: Call, route: TopicRoute, topic: str, message_id: str) -> FoundMessage:
    found = lookup.by_id(call.admin, route, topic, message_id)
    if not found:
        raise NotFoundError(
            f"no message of the topic {topic} has the id {message_id}",
            hint="Its commit log file may be deleted; the index is searched without a limit of time.",
        )
    return found[0]


def _resend(call: Call, route: TopicRoute, messages: Sequence[FoundMessage]) -> Resent:
    """Sends messages as they are, to a queue of their topic."""
    sent: list[SentRow] = []
    results: list[SendResult] = []
    for message in messages:
        stored = message.stored
        queue, addr = random.choice(writable_queues(route, stored.topic))
        copy = Message(stored.topic, stored.plain_body(), properties=message.properties, flag=stored.flag)
        result = None if call.dry_run else call.admin.send_message(addr, queue, copy, group=RESEND_GROUP)
        results += [result] if result else []
        sent.append(
            SentRow(
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


def push(call: Call, messages: Sequence[FoundMessage], group: str, client_id: str) -> Pushed:
    """Has one push consumer consume messages now."""
    addrs = targets.selected_addrs(brokers_of_group(call.admin, group))
    info = call.admin.consumer_running_info(addrs[0], group, client_id)
    if info.properties.get("PROP_CONSUME_TYPE") != "CONSUME_PASSIVELY":
        raise UsageError(f"this {client_id} client is not push consumer ,not support direct push")
    pushed: list[tuple[str, ConsumeDirectlyResult | None]] = []
    for message in messages:
        stored = message.stored
        result = None
        if not call.dry_run:
            result = call.admin.consume_message_directly(
                message.broker_addr, group, client_id, stored.message_id, stored.topic
            )
        pushed.append((message.message_id, result))
    return Pushed(client_id, pushed)
