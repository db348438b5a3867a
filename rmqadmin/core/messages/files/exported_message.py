"""A message as message files hold it, and what an import sends of it.

A file has everything known about a message. An import sends body, properties (and so tag, keys and unique key), flag
and born time; the broker gives the copy a place, the ids of that place, and a new store time.
"""

import zlib
from collections.abc import Sequence
from functools import cache

import msgspec

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import is_damaged, stored_values
from rmqclient.message import Message
from rmqclient.sending import check_body, message_properties
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import Int32, Int64
from rmqproto.message import properties as props
from rmqproto.message.sys_flag import COMPRESSIONS
from rmqproto.names import DLQ_PREFIX
from rmqproto.wording import QUEUES_TOLD_MAX, names_told


class StoredFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What files of all formats have of a message, with the names of rows (``StoredMessageRow``). Fields that another
    program's file lacks are None."""

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


class ExportedMessage(StoredFields, frozen=True):
    """``body`` is as it was sent; ``body_compression`` is set if it is still compressed. ``properties_raw`` is set only
    if the properties are not UTF-8."""

    properties_raw: bytes | None = None
    body: bytes = b""
    body_compression: str | None = None

    @property
    def compression_bits(self) -> int:
        """The compression bits of the sysFlag, if the body is sent compressed."""
        return COMPRESSIONS[self.body_compression] if self.body_compression is not None else 0

    @property
    def size_bytes(self) -> int:
        """The size of body and properties, about as they are stored."""
        return len(self.body) + sum(len(name) + len(value) + 2 for name, value in self.properties.items())


def exported(message: FoundMessage) -> ExportedMessage:
    """The exported form of an ``unpacked`` message."""
    raw = message.stored.properties_raw if is_damaged(message) else None
    return ExportedMessage(**stored_values(message), properties_raw=raw, body=message.stored.body)


@cache
def not_sent(*, to_dead_letters: bool) -> frozenset[str]:
    """Properties that a copy does not get: the marks of its use, and the id by which a redrive recognises its own
    messages, because the copy is not one. A copy in a dead-letter topic keeps the property with its origin topic."""
    from rmqreplay.ledger.letters import REPLAY_ID

    return (props.MARKS_OF_USE | {REPLAY_ID}) - ({props.RETRY_TOPIC} if to_dead_letters else set())


def as_message(found: ExportedMessage, topic: str) -> Message:
    """The message to send to ``topic``. UsageError if it cannot be sent unchanged."""
    if found.properties_raw is not None:
        raise UsageError("its properties are not UTF-8, which no producer can send")
    if found.body_compression is not None and found.body_compression not in COMPRESSIONS:
        raise UsageError(f"{found.body_compression!r} is not a compression that RocketMQ knows")
    left_out = not_sent(to_dead_letters=topic.startswith(DLQ_PREFIX))
    properties = {name: value for name, value in found.properties.items() if name not in left_out}
    return Message(topic, found.body, properties=properties, flag=found.flag)


def problem_with(found: ExportedMessage, topic: str) -> str | None:
    """Why no broker would accept it, as far as that is known without asking one."""
    try:
        check_body(found.body)
        message_properties(as_message(found, topic))
    except UsageError as error:
        return str(error)
    return None


def queues_for(found: ExportedMessage, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
    """Those of a topic's writable queues to which the message may go, each as good as the other: the one that it names,
    by broker, number or both, and all if it names none. A message that was stored before goes where all of its old
    queue go, whether the topic has that queue or not. UsageError for one that was written by hand and names a queue
    that is not there."""
    broker_name, queue_id = found.broker_name, found.queue_id
    named = [
        queue for queue in queues
        if broker_name in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
    ]  # fmt: skip
    if named:
        return named
    if was_stored(found):
        return [queues[(zlib.crc32((broker_name or "").encode()) + (queue_id or 0)) % len(queues)]]
    there = names_told([f"{queue.broker_name}:{queue.queue_id}" for queue in queues], QUEUES_TOLD_MAX)
    place = ", ".join(
        f"{name} {value}" for name, value in (("broker_name", broker_name), ("queue_id", queue_id)) if value is not None
    )
    raise UsageError(f"there is no queue with {place}", hint=f"Queues of {queues[0].topic}: {there}.")


def was_stored(found: ExportedMessage) -> bool:
    """Whether the line is of a stored message, and not one that somebody wrote."""
    return found.queue_offset is not None
