"""One stored message as a row, and as Apache's Java client prints one (``MessageClientExt.toString``, 5.5.0)."""

import base64
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.files import write_file
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage, Track
from rmqadmin.core.mqadmin_text import java_text, properties_text
from rmqadmin.core.results import TIME, Notice, ResultOf, Row, doc
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message import properties as props
from rmqproto.message.record import host_text
from rmqproto.message.sys_flag import COMPRESSED, compression_of


class StoredMessageRow(Row, frozen=True):
    message_id: Annotated[str, doc("unique key, made by the producer", key=True, first=True)]
    offset_message_id: Annotated[str, doc("id made by the broker: its address and the log offset", wide=True)]
    topic: Annotated[str, doc("topic name", minor=True)]
    broker_name: Annotated[str, doc("broker that stores it", minor=True)]
    queue_id: Annotated[int, doc("queue id", minor=True)]
    queue_offset: Annotated[int, doc("its place in the queue", minor=True)]
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
    body_size_bytes: Annotated[int, doc("size of the body, decompressed", minor=True)]
    body: Annotated[str | None, doc("the body if it is text", vital=True, first=True)]
    body_base64: Annotated[str | None, doc("the body if it is not", sparse=True)]
    body_compression: Annotated[str | None, doc("how it is compressed still: it could not be unpacked", sparse=True)]
    properties_base64: Annotated[str | None, doc("the properties' bytes if they are not UTF-8", sparse=True)]


def stored_values(message: FoundMessage) -> dict[str, Any]:
    """What rows and files have of a message in common: all but its body, by the names of ``StoredMessageRow``."""
    stored = message.stored
    return {
        "message_id": message.message_id,
        "offset_message_id": stored.message_id,
        "topic": stored.topic,
        "broker_name": message.broker_name,
        "queue_id": stored.queue_id,
        "queue_offset": stored.queue_offset,
        "log_offset": stored.log_offset,
        "born_ms": stored.born_timestamp_ms,
        "stored_ms": stored.store_timestamp_ms,
        "born_host": host_text(stored.born_host),
        "store_host": host_text(stored.store_host),
        "reconsume_times": stored.reconsume_times,
        "sys_flag": stored.sys_flag,
        "flag": stored.flag,
        "properties": message.properties,
        "body_compression": message.packed,
    }


def message_values(message: FoundMessage, *, charset: str = "UTF-8", with_body: bool = True) -> dict[str, Any]:
    """Values of a ``StoredMessageRow`` of an ``unpacked`` message; without ``with_body`` only the size of its body."""
    stored, found = message.stored, message.properties
    body, text = stored.body, None
    if with_body:
        with contextlib.suppress(UnicodeDecodeError):
            text = body.decode(charset)
    return stored_values(message) | {
        "tags": found.get(props.TAGS),
        "keys": found.get(props.KEYS),
        "body_size_bytes": len(body),
        "body": text,
        "body_base64": base64.b64encode(body).decode() if with_body and text is None else None,
        "properties_base64": base64.b64encode(stored.properties_raw).decode() if is_damaged(message) else None,
    }


def is_damaged(message: FoundMessage) -> bool:
    """Whether the properties are not UTF-8, so that their text contains U+FFFD."""
    if not any("\ufffd" in name or "\ufffd" in value for name, value in message.properties.items()):
        return False
    try:
        message.stored.properties_raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def unpacked(message: FoundMessage, notice: Notice) -> FoundMessage:
    """The message with its body decompressed; if that fails, as stored, with the reason as a notice."""
    if not message.stored.sys_flag & COMPRESSED:
        return message
    try:
        stored = msgspec.structs.replace(message.stored, body=message.stored.plain_body())
    except ProtocolError as error:
        notice(f"{error}; the body is shown as stored")
        return msgspec.structs.replace(message, packed=compression_of(message.stored.sys_flag))
    return msgspec.structs.replace(message, stored=stored)


def checked_charset(option: str, name: str) -> str:
    """UsageError for an unknown charset."""
    try:
        " ".encode(name)  # an empty text would be encoded whatever the name is
    except LookupError:
        raise UsageError(f"{option}: {name!r} is not a charset", hint="For example UTF-8.") from None
    return name


def message_ext_text(message: FoundMessage, body: bytes) -> str:
    """``MessageExt.toString``: everything, with the body as a list of signed bytes."""
    stored, found = message.stored, message.properties
    # The client takes the unique key of a half message as its transaction id.
    transaction_id = found.get(props.UNIQUE_KEY) if found.get(props.TRAN_MSG, "").lower() == "true" else None
    signed = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in body)
    return (
        f"MessageExt [brokerName={message.broker_name}, queueId={stored.queue_id}, storeSize={stored.size_bytes}, "
        f"queueOffset={stored.queue_offset}, sysFlag={stored.sys_flag}, bornTimestamp={stored.born_timestamp_ms}, "
        f"bornHost=/{host_text(stored.born_host)}, storeTimestamp={stored.store_timestamp_ms}, "
        f"storeHost=/{host_text(stored.store_host)}, msgId={stored.message_id}, commitLogOffset={stored.log_offset}, "
        f"bodyCRC={stored.body_crc}, reconsumeTimes={stored.reconsume_times}, "
        f"preparedTransactionOffset={stored.prepared_transaction_offset}, "
        f"toString()=Message{{topic='{stored.topic}', flag={stored.flag}, properties={properties_text(found)}, "
        f"body=[{signed}], transactionId='{java_text(transaction_id)}'}}]"
    )


BODIES_DIR = Path("/tmp/rocketmq/msgbodys")
"""Where mqadmin puts bodies. Only ``--output mqadmin`` writes there, too, because its text names the file."""


class MessageRow(StoredMessageRow, frozen=True):
    tracks: Annotated[list[Track], doc("what became of it, by group")]


class Shown(msgspec.Struct, frozen=True):
    """A message and what is shown with it. ``charset`` is that of ``-f``."""

    message: FoundMessage
    tracks: list[Track]
    charset: str | None


class Messages(ResultOf[MessageRow], frozen=True):
    """Messages with what became of them."""

    shown: list[Shown]

    def rows(self) -> Sequence[MessageRow]:
        return [MessageRow(**message_values(one.message), tracks=one.tracks) for one in self.shown]

    def mqadmin_text(self) -> str:
        return "".join(mqadmin_block(one) for one in self.shown)


def body_path(message_id: str, index: int = 0) -> Path:
    """Where mqadmin puts a body; ``index`` counts the messages of one unique key."""
    return BODIES_DIR / (f"{message_id}_{index}" if index else message_id)


def mqadmin_block(one: Shown, *, index: int = 0, with_offset_id: bool = True, track_end: str = "\n") -> str:
    """A message and its tracks as ``queryMsgById`` prints them. The other queries print them slightly differently."""
    from rmqproto.times import mqadmin_time

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
        fields.append(("Message Body:", one.message.stored.body.decode(one.charset, "replace")))
    text = "".join(f"{name:20} {value}\n" for name, value in fields)
    text += "\n\n"
    if not one.tracks:
        return text + "WARN: No Consumer"
    return text + "".join(
        f"MessageTrack [consumerGroup={track.group}, trackType={track.state}, "
        f"exceptionDesc={java_text(track.error)}]{track_end}"
        for track in one.tracks
    )


def show(
    admin: AdminClient,
    messages: Sequence[FoundMessage],
    charset: str | None,
    notice: Notice,
    *,
    leave_files: bool,
) -> list[Shown]:
    """Messages with their bodies and tracks. ``leave_files``: bodies are also written to files, as mqadmin does."""
    shown = [Shown(unpacked(message, notice), lookup.tracks(admin, message), charset) for message in messages]
    if leave_files:
        for index, one in enumerate(shown):
            same = sum(other.message.message_id == one.message.message_id for other in shown[:index])
            write_file(body_path(one.message.message_id, same), one.message.stored.body)
    return shown
