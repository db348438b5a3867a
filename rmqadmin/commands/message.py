"""``queryMsgById``: one message with what became of it; sending it once more, and pushing it to a consumer."""

from __future__ import annotations

import base64
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
from rmqadmin.mqadmin_text import java_bool, java_text, properties_text
from rmqadmin.options import Topic, TrueFalse
from rmqadmin.output import Format
from rmqadmin.results import TIME, Result, Row, doc
from rmqclient.message import Message, SendResult
from rmqproto import properties as props
from rmqproto.bodies import ConsumeDirectlyResult, TopicRoute
from rmqproto.errors import NotFoundError, ProtocolError, UsageError
from rmqproto.record import host_text

BODIES_DIR = Path("/tmp/rocketmq/msgbodys")
"""Where mqadmin puts bodies; only ``--output mqadmin`` does too, because its text names the file."""

RESEND_GROUP = "ReSendMsgById"

# --- one message -----------------------------------------------------------------------------------------------------


class MessageRow(Row, frozen=True):
    message_id: Annotated[str, doc("unique key, made by the producer", key=True)]
    offset_message_id: Annotated[str, doc("id made by the broker: its address and the log offset")]
    topic: Annotated[str, doc("topic name")]
    broker_name: Annotated[str, doc("broker that stores it")]
    queue_id: Annotated[int, doc("queue id")]
    queue_offset: Annotated[int, doc("its place in the queue")]
    log_offset: Annotated[int, doc("its place in the commit log", wide=True)]
    tags: Annotated[str | None, doc("tag")]
    keys: Annotated[str | None, doc("keys, separated by blanks")]
    born_ms: Annotated[int, TIME, doc("when it was made, by the producer's clock", wide=True)]
    stored_ms: Annotated[int, TIME, doc("when it was stored")]
    born_host: Annotated[str, doc("address of the producer", wide=True)]
    store_host: Annotated[str, doc("address of the broker", wide=True)]
    reconsume_times: Annotated[int, doc("how often it has come back", wide=True)]
    sys_flag: Annotated[int, doc("bits: compressed, transaction, IPv6", wide=True)]
    flag: Annotated[int, doc("the application's own number", wide=True)]
    properties: Annotated[dict[str, str], doc("all properties", wide=True)]
    body_size_bytes: Annotated[int, doc("size of the body, decompressed")]
    body: Annotated[str | None, doc("the body where it is UTF-8 text")]
    body_base64: Annotated[str | None, doc("the body where it is not", sparse=True)]
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
        return "".join(_mqadmin_block(one) for one in self.shown)


def _message_row(one: Shown) -> MessageRow:
    stored, found = one.message.stored, one.message.properties
    text = _decoded(one.body)
    return MessageRow(
        message_id=one.message.message_id,
        offset_message_id=stored.message_id,
        topic=stored.topic,
        broker_name=one.message.broker_name,
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        log_offset=stored.log_offset,
        tags=found.get(props.TAGS),
        keys=found.get(props.KEYS),
        born_ms=stored.born_timestamp_ms,
        stored_ms=stored.store_timestamp_ms,
        born_host=host_text(stored.born_host),
        store_host=host_text(stored.store_host),
        reconsume_times=stored.reconsume_times,
        sys_flag=stored.sys_flag,
        flag=stored.flag,
        properties=found,
        body_size_bytes=len(one.body),
        body=text,
        body_base64=base64.b64encode(one.body).decode() if text is None else None,
        tracks=one.tracks,
    )


def _decoded(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def body_path(message_id: str) -> Path:
    return BODIES_DIR / message_id


def _mqadmin_block(one: Shown) -> str:
    from rmqadmin.times import mqadmin_time

    stored, found = one.message.stored, one.message.properties
    fields = [
        ("OffsetID:", stored.message_id),
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
        ("Message Body Path:", body_path(one.message.message_id)),
    ]
    if one.charset is not None:
        fields.append(("Message Body:", one.body.decode(one.charset, "replace")))
    text = "".join(f"{name:20} {value}\n" for name, value in fields)
    text += "\n\n"
    if not one.tracks:
        return text + "WARN: No Consumer"
    return text + "".join(
        f"MessageTrack [consumerGroup={track.group}, trackType={track.state}, exceptionDesc={java_text(track.error)}]\n"
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
    consumer_group: Annotated[
        str | None, typer.Option("-g", "--consumerGroup", metavar="GROUP", help="With -d: push it to a consumer.")
    ] = None,
    client_id: Annotated[
        str | None, typer.Option("-d", "--clientId", metavar="CLIENT", help="With -g: the consumer.")
    ] = None,
    send_message: Annotated[
        TrueFalse | None, typer.Option("-s", "--sendMessage", case_sensitive=False, help="Send it once more.")
    ] = None,
    unit_name: Annotated[
        str | None, typer.Option("-u", "--unitName", help="Taken from mqadmin, without effect.")
    ] = None,
    body_format: Annotated[
        str | None, typer.Option("-f", "--bodyFormat", metavar="CHARSET", help="Charset of the body.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("-c", "--cluster", metavar="TOPIC", help="Look up this topic's route (LMQ parent).")
    ] = None,
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
        return _push(call, messages, consumer_group.strip(), client_id.strip())
    if send_message is TrueFalse.TRUE:
        return _resend(call, route, messages)
    charset = _checked_charset(body_format)
    shown = [Shown(message, _body(call, message), lookup.tracks(call.admin, message), charset) for message in messages]
    if call.format is Format.MQADMIN:
        _write_bodies(shown)
    return Messages(shown)


def _one(call: Call, route: TopicRoute, topic: str, message_id: str) -> FoundMessage:
    found = lookup.by_id(call.admin, route, topic, message_id)
    if not found:
        raise NotFoundError(
            f"no message of the topic {topic} has the id {message_id}",
            hint="Its commit log file may be deleted; the index is searched without a limit of time.",
        )
    return found[0]


def _body(call: Call, message: FoundMessage) -> bytes:
    try:
        return message.stored.plain_body()
    except ProtocolError as error:
        call.notice(f"{error}; the body is shown as stored")
        return message.stored.body


def _checked_charset(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        b"".decode(name)
    except LookupError:
        raise UsageError(f"-f: {name!r} is no charset", hint="For example UTF-8.") from None
    return name


def _write_bodies(shown: Sequence[Shown]) -> None:
    BODIES_DIR.mkdir(parents=True, exist_ok=True)
    for one in shown:
        body_path(one.message.message_id).write_bytes(one.body)


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


def _push(call: Call, messages: Sequence[FoundMessage], group: str, client_id: str) -> Pushed:
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
