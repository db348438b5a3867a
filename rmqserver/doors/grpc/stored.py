"""Messages of clients as stored messages, and back (``SendMessageActivity.buildMessageProperty``,
``GrpcConverter.buildMessage``, 5.5.0)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from rmqproto.codes import TopicMessageType as Type
from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import INT_MAX
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, host_text
from rmqproto.message.sys_flag import COMPRESSED, TRANSACTION_PREPARED
from rmqproto.names import DLQ_PREFIX
from rmqserver.core import Role
from rmqserver.doors.grpc.call_checks import SYSTEM_PROPERTIES, check_message, ms_of
from rmqserver.doors.grpc.messages import value

PLAIN_SIZE_MAX_BYTES = 16 << 20
"""A frame of the older protocol. What is longer once unpacked was made to be: 32 such bodies would fill memory."""

MD5: Callable[[bytes], Any] = hashlib.md5
"""Of bodies: the only digest that all clients read alike."""
try:
    MD5(b"")
except ValueError:  # this machine has to be told that it is not for security, which doubles the time
    MD5 = partial(hashlib.md5, usedforsecurity=False)

_GZIP_MAGIC = b"\x1f\x8b"
_IDENTITY, _GZIP = value("Encoding", "IDENTITY"), value("Encoding", "GZIP")
_MD5 = value("DigestType", "MD5")
_TRANSACTION = value("MessageType", "TRANSACTION")
_TEXTS = {
    "tag": props.TAGS, "message_group": props.SHARDING_KEY, "lite_topic": props.LITE_TOPIC,
    "trace_context": props.TRACE_CONTEXT,
}  # fmt: skip
"""Fields that are properties as they are."""


def type_of(properties: dict[str, str]) -> Type:
    """The type of a message with these properties (``TopicMessageType.parseFromMessageProperty``)."""
    if properties.get(props.TRAN_MSG) == "true":
        return Type.TRANSACTION
    if not props.DELAYING_NAMES.isdisjoint(properties):
        return Type.DELAY
    if props.SHARDING_KEY in properties:
        return Type.FIFO
    if props.PRIORITY in properties:
        return Type.PRIORITY
    return Type.LITE if props.LITE_TOPIC in properties else Type.NORMAL


class SentMessage(NamedTuple):
    """A message of a client that may be stored, if its topic takes its type."""

    id: str
    body: bytes
    properties: dict[str, str]
    sys_flag: int
    kind: Type
    delivery_attempt: int


def checked_message(message: Any, now_ms: int, peer_address: str) -> SentMessage:
    """Raises CallRefused for what no topic takes."""
    system, body, properties = message.system_properties, message.body, dict(message.user_properties)
    check_message(system, body, properties, now_ms)
    properties[props.UNIQUE_KEY] = system.message_id
    properties[props.PRODUCER_GROUP] = message.topic.name
    for field, name in _TEXTS.items():
        if text := getattr(system, field):
            properties[name] = text
    if keys := " ".join(system.keys):
        properties[props.KEYS] = keys
    if system.message_type == _TRANSACTION:  # which decides about nothing else
        properties[props.TRAN_MSG] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            recovery_s = system.orphaned_transaction_recovery_duration.seconds
            properties[props.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(recovery_s)
    if system.HasField("delivery_timestamp"):
        properties[props.TIMER_DELIVER_MS] = str(ms_of(system.delivery_timestamp))
    if system.HasField("priority"):
        properties[props.PRIORITY] = str(system.priority)
    properties[props.RECONSUME_TIME] = str(system.delivery_attempt)
    properties[props.BORN_HOST] = system.born_host or peer_address
    if system.HasField("born_timestamp"):
        properties[props.BORN_TIMESTAMP] = str(ms_of(system.born_timestamp))
    kind = type_of(properties)
    flag = COMPRESSED if system.body_encoding == _GZIP else 0
    flag |= TRANSACTION_PREPARED if kind is Type.TRANSACTION else 0
    return SentMessage(system.message_id, body, properties, flag, kind, system.delivery_attempt)


def put_message(
    message: Any, record: StoredMessage, properties: dict[str, str], topic: str, handle: str | None
) -> None:
    """A stored message with these properties for a client, into an empty one; ``topic`` is the one that it asked for,
    without ``handle`` nothing can be acknowledged."""
    get = properties.get
    body, encoding = _body_of(record)
    message.body = body
    message.topic.name = topic
    system = message.system_properties
    for field, name in _TEXTS.items():
        if (text := get(name)) is not None:
            setattr(system, field, text)
    if keys := get(props.KEYS):
        system.keys.extend(props.split_keys(keys))
    system.message_id = get(props.UNIQUE_KEY) or record.message_id
    digest = system.body_digest
    digest.type, digest.checksum = _MD5, MD5(body).hexdigest().upper()
    system.body_encoding = encoding
    kind = Type.TRANSACTION if props.TRANSACTION_ID in properties else type_of(properties)
    system.message_type = value("MessageType", kind)
    set_ms(system.born_timestamp, _number(get(props.BORN_TIMESTAMP), record.born_timestamp_ms))
    system.born_host = get(props.BORN_HOST) or host_text(record.born_host)
    set_ms(system.store_timestamp, record.store_timestamp_ms)
    system.store_host = host_text(record.store_host)
    if handle is not None:
        system.receipt_handle = handle
    system.queue_id, system.queue_offset = record.queue_id, record.queue_offset
    system.delivery_attempt = min(record.reconsume_times + 1, INT_MAX)
    if (deliver_ms := _number(get(props.TIMER_DELIVER_MS), 0)) > 0:
        set_ms(system.delivery_timestamp, deliver_ms)
    if (priority := _number(get(props.PRIORITY), -1)) >= 0:
        system.priority = min(priority, INT_MAX)
    if props.DLQ_ORIGIN_TOPIC in properties or props.DLQ_ORIGIN_MESSAGE_ID in properties:
        system.dead_letter_queue.topic = get(props.DLQ_ORIGIN_TOPIC, "")
        system.dead_letter_queue.message_id = get(props.DLQ_ORIGIN_MESSAGE_ID, "")
    elif topic.startswith(DLQ_PREFIX) and props.RETRY_TOPIC in properties:
        system.dead_letter_queue.topic = properties[props.RETRY_TOPIC]
        system.dead_letter_queue.message_id = get(props.ORIGIN_MESSAGE_ID, "")
    users = message.user_properties
    for name in properties.keys() - SYSTEM_PROPERTIES:
        users[name] = properties[name]


PLAIN_ROLES: dict[bytes, int] = {
    name.encode(): role
    for names, role in (
        (SYSTEM_PROPERTIES, Role.DROPPED),
        (_TEXTS.values(), Role.ODD),
        (props.DELAYING_NAMES, Role.ODD),
        ((props.PRIORITY, props.DLQ_ORIGIN_TOPIC, props.DLQ_ORIGIN_MESSAGE_ID), Role.ODD),
        ((props.TRANSACTION_ID, props.TRAN_MSG), Role.ODD),
        ((props.TAGS,), Role.TAG),
        ((props.KEYS,), Role.KEYS),
        ((props.UNIQUE_KEY,), Role.UNIQUE_KEY),
        ((props.BORN_TIMESTAMP,), Role.BORN_TIME),
        ((props.BORN_HOST,), Role.BORN_TEXT),
    )
    for name in names
}
"""What ``pack_received`` is told of the properties, so that it does what ``put_message`` does."""


def _body_of(record: StoredMessage) -> tuple[bytes, int]:
    """Bodies that a client of the remoting protocol compressed otherwise than by gzip go out plain: Node's client can
    only gunzip. What cannot be unpacked here goes out as it is."""
    if not record.sys_flag & COMPRESSED:
        return record.body, _IDENTITY
    if record.body.startswith(_GZIP_MAGIC):
        return record.body, _GZIP
    try:
        return record.plain_body(PLAIN_SIZE_MAX_BYTES), _IDENTITY
    except ProtocolError:
        return record.body, _GZIP


def set_ms(field: Any, time_ms: int) -> None:
    """Sets a Timestamp or a Duration."""
    field.seconds, field.nanos = time_ms // 1000, time_ms % 1000 * 1_000_000


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else default
