"""One message as files of messages hold it, and what is sent of it when it is imported.

A file has everything that is known of a message. Sent again are body, properties (so tag, keys and unique key, too),
flag and born time; the broker gives the copy a place, ids of its place, and its own time.
"""

from __future__ import annotations

from functools import cache

import msgspec

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import is_damaged
from rmqclient.message import Message
from rmqclient.sending import check_body, message_properties
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import Int32, Int64
from rmqproto.message import properties as props
from rmqproto.message.record import host_text
from rmqproto.message.sys_flag import COMPRESSIONS
from rmqproto.names import DLQ_PREFIX


class ExportedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The names are those of rows (``StoredMessageRow``). ``body`` is as it was sent, unless ``body_compression`` says
    how it is compressed still; ``properties_raw`` is there only if the properties are not UTF-8. What a file made
    elsewhere does not say is None."""

    message_id: str = ""
    offset_message_id: str = ""
    topic: str = ""
    broker_name: str | None = None
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None
    log_offset: Int64 | None = None
    born_ms: Int64 | None = None
    stored_ms: Int64 | None = None
    born_host: str | None = None
    store_host: str | None = None
    reconsume_times: Int32 = 0
    sys_flag: Int32 = 0
    flag: Int32 = 0
    properties: dict[str, str] = {}
    properties_raw: bytes | None = None
    body: bytes = b""
    body_compression: str | None = None

    @property
    def compression_bits(self) -> int:
        """Of the sysFlag, if the body is sent as it is compressed."""
        return COMPRESSIONS[self.body_compression] if self.body_compression is not None else 0

    @property
    def size_bytes(self) -> int:
        """Body and properties, about as they are stored."""
        return len(self.body) + sum(len(name) + len(value) + 2 for name, value in self.properties.items())


def exported(message: FoundMessage) -> ExportedMessage:
    """From a message that was ``unpacked``."""
    stored = message.stored
    return ExportedMessage(
        message_id=message.message_id,
        offset_message_id=stored.message_id,
        topic=stored.topic,
        broker_name=message.broker_name,
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        log_offset=stored.log_offset,
        born_ms=stored.born_timestamp_ms,
        stored_ms=stored.store_timestamp_ms,
        born_host=host_text(stored.born_host),
        store_host=host_text(stored.store_host),
        reconsume_times=stored.reconsume_times,
        sys_flag=stored.sys_flag,
        flag=stored.flag,
        properties=message.properties,
        properties_raw=stored.properties_raw if is_damaged(message) else None,
        body=stored.body,
        body_compression=message.packed,
    )


@cache
def not_sent(*, to_dead_letters: bool) -> frozenset[str]:
    """Properties that a copy does not get: the marks of its use, and the id by which a redrive knows its messages
    again, for it is none of them. A dead letter keeps the topic that it came from."""
    from spark_tools.replay.sending.replay_ids import REPLAY_ID

    return (props.MARKS_OF_USE | {REPLAY_ID}) - ({props.RETRY_TOPIC} if to_dead_letters else set())


def as_message(found: ExportedMessage, topic: str) -> Message:
    """What is sent of it to ``topic``. UsageError for what cannot be sent as it is."""
    if found.properties_raw is not None:
        raise UsageError("its properties are not UTF-8, which no producer can send")
    if found.body_compression is not None and found.body_compression not in COMPRESSIONS:
        raise UsageError(f"{found.body_compression!r} is no compression that RocketMQ knows")
    left_out = not_sent(to_dead_letters=topic.startswith(DLQ_PREFIX))
    properties = {name: value for name, value in found.properties.items() if name not in left_out}
    return Message(topic, found.body, properties=properties, flag=found.flag)


def problem_with(found: ExportedMessage, topic: str) -> str | None:
    """Why no broker would take it, as far as can be told without one."""
    try:
        check_body(found.body)
        message_properties(as_message(found, topic))
    except UsageError as error:
        return str(error)
    return None
