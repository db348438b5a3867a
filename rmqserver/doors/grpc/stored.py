"""Messages of clients as stored messages, and back (``SendMessageActivity.buildMessageProperty``,
``GrpcConverter.buildMessage``, 5.5.0)."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import INT_MAX
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, host_text
from rmqproto.message.sys_flag import COMPRESSED, TRANSACTION_PREPARED
from rmqproto.names import DLQ_PREFIX
from rmqproto.topic_message_type import TopicMessageType as Type
from rmqserver.core import Role
from rmqserver.doors.grpc.call_checks import SYSTEM_PROPERTIES, SentMessage, ms_of
from rmqserver.doors.grpc.messages import value

PLAIN_SIZE_MAX_BYTES = 16 << 20
"""A frame of the older protocol. What is longer once unpacked was made to be: 32 such bodies would fill memory."""

MD5 = partial(hashlib.md5, usedforsecurity=False)
"""Of bodies: the only digest that all clients read alike."""

_GZIP_MAGIC = b"\x1f\x8b"
_IDENTITY, _GZIP = value("Encoding", "IDENTITY"), value("Encoding", "GZIP")
_MD5 = value("DigestType", "MD5")
_TRANSACTION = value("MessageType", "TRANSACTION")
_DELAYS = {props.TIMER_DELIVER_MS, props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.DELAY}
"""Dead letters have the last one, too."""


def type_of(asked: SentMessage) -> Type:
    """The type that a message of a client has by its fields; ``message_type`` decides only about a transaction."""
    system = asked.message.system_properties
    if system.message_type == _TRANSACTION:
        return Type.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return Type.DELAY
    if system.message_group or props.SHARDING_KEY in asked.user_properties:
        return Type.FIFO
    if system.HasField("priority"):
        return Type.PRIORITY
    return Type.LITE if system.lite_topic else Type.NORMAL


def _type_of_stored(properties: dict[str, str]) -> Type:
    if props.TRANSACTION_ID in properties or properties.get(props.TRAN_MSG) == "true":
        return Type.TRANSACTION
    if not _DELAYS.isdisjoint(properties):
        return Type.DELAY
    if props.SHARDING_KEY in properties:
        return Type.FIFO
    if props.PRIORITY in properties:
        return Type.PRIORITY
    return Type.LITE if props.LITE_TOPIC in properties else Type.NORMAL


def properties_of(asked: SentMessage, kind: Type, peer_address: str) -> dict[str, str]:
    """The properties under which a message of a client is stored."""
    system = asked.message.system_properties
    found = asked.user_properties.copy()
    found[props.UNIQUE_KEY] = system.message_id
    found[props.PRODUCER_GROUP] = asked.message.topic.name
    if system.tag:
        found[props.TAGS] = system.tag
    if keys := " ".join(system.keys):
        found[props.KEYS] = keys
    if kind is not Type.NORMAL:
        _add_what_asks(found, system, kind)
    if system.HasField("trace_context"):
        found[props.TRACE_CONTEXT] = system.trace_context
    found[props.RECONSUME_TIME] = str(system.delivery_attempt)
    found[props.BORN_HOST] = system.born_host or peer_address
    if system.HasField("born_timestamp"):
        found[props.BORN_TIMESTAMP] = str(ms_of(system.born_timestamp))
    return found


def _add_what_asks(found: dict[str, str], system: Any, kind: Type) -> None:
    """What makes a message one of another type than NORMAL."""
    if kind is Type.TRANSACTION:
        found[props.TRAN_MSG] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            found[props.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(system.orphaned_transaction_recovery_duration.seconds)
    if system.HasField("delivery_timestamp"):
        found[props.TIMER_DELIVER_MS] = str(ms_of(system.delivery_timestamp))
    if system.message_group:
        found[props.SHARDING_KEY] = system.message_group
    if system.HasField("priority"):
        found[props.PRIORITY] = str(system.priority)
    if system.lite_topic:
        found[props.LITE_TOPIC] = system.lite_topic


def sys_flag_of(system: Any, kind: Type) -> int:
    flag = COMPRESSED if system.body_encoding == _GZIP else 0
    return flag | (TRANSACTION_PREPARED if kind is Type.TRANSACTION else 0)


def put_message(
    message: Any, record: StoredMessage, topic: str, handle: str | None, properties: dict[str, str] | None = None
) -> None:
    """A stored message for a client, into an empty one; ``topic`` is the one that it asked for, without ``handle``
    nothing can be acknowledged. ``properties`` are the record's, if they were read before; ProtocolError if they cannot
    be."""
    if properties is None:
        properties = record.properties
    get = properties.get
    body, encoding = _body_of(record)
    message.body = body
    message.topic.name = topic
    system = message.system_properties
    if (tag := get(props.TAGS)) is not None:
        system.tag = tag
    if keys := get(props.KEYS):
        system.keys.extend(props.split_keys(keys))
    system.message_id = get(props.UNIQUE_KEY) or record.message_id
    digest = system.body_digest
    digest.type, digest.checksum = _MD5, MD5(body).hexdigest().upper()
    system.body_encoding = encoding
    system.message_type = value("MessageType", _type_of_stored(properties))
    set_ms(system.born_timestamp, _number(get(props.BORN_TIMESTAMP), record.born_timestamp_ms))
    system.born_host = get(props.BORN_HOST) or host_text(record.born_host)
    set_ms(system.store_timestamp, record.store_timestamp_ms)
    system.store_host = host_text(record.store_host)
    if handle is not None:
        system.receipt_handle = handle
    system.queue_id, system.queue_offset = record.queue_id, record.queue_offset
    system.delivery_attempt = min(record.reconsume_times + 1, INT_MAX)
    if not _PUT_IF_THERE.isdisjoint(properties):
        _put_what_is_there(system, properties)
    if topic.startswith(DLQ_PREFIX) and props.RETRY_TOPIC in properties and not system.HasField("dead_letter_queue"):
        system.dead_letter_queue.topic = properties[props.RETRY_TOPIC]
        system.dead_letter_queue.message_id = get(props.ORIGIN_MESSAGE_ID, "")
    users = message.user_properties
    for name in properties.keys() - SYSTEM_PROPERTIES:
        users[name] = properties[name]


_PUT_IF_THERE = {
    props.SHARDING_KEY, props.TIMER_DELIVER_MS, props.TRACE_CONTEXT, props.DLQ_ORIGIN_TOPIC,
    props.DLQ_ORIGIN_MESSAGE_ID, props.PRIORITY, props.LITE_TOPIC,
}  # fmt: skip
"""Properties that most messages do not have."""


PLAIN_ROLES: dict[bytes, int] = {
    name.encode(): role
    for names, role in (
        (SYSTEM_PROPERTIES, Role.DROPPED),
        ((*_PUT_IF_THERE, props.TRANSACTION_ID, props.TRAN_MSG, *_DELAYS), Role.ODD),
        ((props.TAGS,), Role.TAG),
        ((props.KEYS,), Role.KEYS),
        ((props.UNIQUE_KEY,), Role.UNIQUE_KEY),
        ((props.BORN_TIMESTAMP,), Role.BORN_TIME),
        ((props.BORN_HOST,), Role.BORN_TEXT),
    )
    for name in names
}
"""What ``pack_received`` is told of the properties, so that it does what ``put_message`` does."""


def _put_what_is_there(system: Any, properties: dict[str, str]) -> None:
    if props.SHARDING_KEY in properties:
        system.message_group = properties[props.SHARDING_KEY]
    if (deliver_ms := _number(properties.get(props.TIMER_DELIVER_MS), 0)) > 0:
        set_ms(system.delivery_timestamp, deliver_ms)
    if props.TRACE_CONTEXT in properties:
        system.trace_context = properties[props.TRACE_CONTEXT]
    if props.DLQ_ORIGIN_TOPIC in properties or props.DLQ_ORIGIN_MESSAGE_ID in properties:
        system.dead_letter_queue.topic = properties.get(props.DLQ_ORIGIN_TOPIC, "")
        system.dead_letter_queue.message_id = properties.get(props.DLQ_ORIGIN_MESSAGE_ID, "")
    if (priority := _number(properties.get(props.PRIORITY), -1)) >= 0:
        system.priority = min(priority, INT_MAX)
    if props.LITE_TOPIC in properties:
        system.lite_topic = properties[props.LITE_TOPIC]


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
