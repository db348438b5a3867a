"""A message as a producer makes it and as a consumer gets it, and how it becomes the header and body of a send.

Shared by the trio producer and the admin client, so that every message of ours is compressed, keyed and checked alike
(``DefaultMQProducerImpl.sendKernelImpl`` and ``Validators``, 5.5.0).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from rmqproto import properties as props
from rmqproto import record
from rmqproto.bodies import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import UsageError
from rmqproto.headers import SendAnswer, SendHeaderV2
from rmqproto.message_id import UniqueIds
from rmqproto.names import AUTO_CREATE_TOPIC, SEND_FORBIDDEN_TOPICS, topic_problem
from rmqproto.record import BatchItem, StoredMessage, encode_batch

BODY_SIZE_MAX_BYTES = 4 * 1024 * 1024
"""Apache's default for clients and brokers (``maxMessageSize``)."""

COMPRESS_FROM_BYTES = 4096
COMPRESS_LEVEL = 5
COMPRESSED_ZLIB = record.COMPRESSED | 0x300

DEFAULT_TOPIC_QUEUE_NUMS = 4
"""Queues a topic gets that the broker creates because of a send."""

_KEY_SEPARATOR = " "
_unique_ids = UniqueIds()


@dataclass(slots=True)
class Message:
    """What a producer sends. ``tags`` is one tag; ``keys`` are indexed each (none may hold a space).

    ``delay_level`` 1 to 18 delays delivery by the broker's table (1 s to 2 h), 0 does not. ``flag`` is the
    application's own number. ``properties`` are the application's, and any of RocketMQ's that the fields do not cover.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Iterable[str] | str = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_level: int = 0
    flag: int = 0


class SendStatus(Enum):
    """Stored in all four cases; the last three say which promise of durability the broker could not keep in time."""

    SEND_OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE


STORED_CODES = frozenset(int(status.value) for status in SendStatus)
"""Codes of a send's answer after which the message is stored."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a message went. ``message_id`` is the unique key, made by us; ``offset_message_id`` the broker's. For a
    batch both are joined by commas, one of each a message, and ``queue_offset`` is the first message's."""

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int


def send_result(code: int, answer: SendAnswer, message_id: str, queue: MessageQueue) -> SendResult:
    stored_in = MessageQueue(queue.topic, queue.broker_name, answer.queue_id)
    return SendResult(SendStatus(code), message_id, answer.message_id, stored_in, answer.queue_offset)


def send_request(message: Message, queue: MessageQueue, producer_group: str) -> tuple[SendHeaderV2, bytes, str]:
    """Header of 310, body and unique key of one message. UsageError for a message that no broker would take."""
    check_topic(message.topic)
    check_body(message.body)
    properties, unique_key = message_properties(message)
    body, sys_flag = message.body, 0
    if len(body) >= COMPRESS_FROM_BYTES:
        body, sys_flag = zlib.compress(body, COMPRESS_LEVEL), COMPRESSED_ZLIB
    header = _header(queue, producer_group, properties, sys_flag, message.flag)
    return header, body, unique_key


def batch_request(
    messages: list[Message], queue: MessageQueue, producer_group: str
) -> tuple[SendHeaderV2, bytes, list[str]]:
    """Header of 320, body and unique keys of a batch. UsageError where the messages cannot travel as one: several
    topics, a delay, or more than BODY_SIZE_MAX_BYTES together. Batches are never compressed."""
    if not messages:
        raise UsageError("a batch needs at least one message")
    topic = messages[0].topic
    check_topic(topic)
    items, unique_keys = [], []
    for message in messages:
        if message.topic != topic:
            raise UsageError(f"a batch goes to one topic, not to {topic} and {message.topic}")
        if message.delay_level:
            raise UsageError("a batch cannot be delayed")
        check_body(message.body)
        properties, unique_key = message_properties(message)
        items.append(BatchItem(message.flag, message.body, properties.encode()))
        unique_keys.append(unique_key)
    body = encode_batch(items)
    check_body(body)
    header = _header(queue, producer_group, "", 0, 0)
    header.batch = True
    return header, body, unique_keys


def _header(queue: MessageQueue, producer_group: str, properties: str, sys_flag: int, flag: int) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group=producer_group,
        topic=queue.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=DEFAULT_TOPIC_QUEUE_NUMS,
        queue_id=queue.queue_id,
        sys_flag=sys_flag,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=flag,
        properties=properties,
        broker_name=queue.broker_name,
    )


def message_properties(message: Message) -> tuple[str, str]:
    """The property text and the unique key in it: the one that the properties bring, or a new one."""
    properties = dict(message.properties)
    if message.tags:
        properties[props.TAGS] = message.tags
    if message.keys:
        properties[props.KEYS] = message.keys if isinstance(message.keys, str) else _KEY_SEPARATOR.join(message.keys)
    if message.delay_level:
        properties[props.DELAY] = str(message.delay_level)
    unique_key = properties.setdefault(props.UNIQUE_KEY, "") or _unique_ids.next()
    properties[props.UNIQUE_KEY] = unique_key
    properties.setdefault(props.WAIT, "true")
    try:
        text = props.render(properties)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if len(text) * 4 > props.PROPERTIES_SIZE_MAX_BYTES and len(text.encode()) > props.PROPERTIES_SIZE_MAX_BYTES:
        raise UsageError(f"the properties take more than {props.PROPERTIES_SIZE_MAX_BYTES} bytes")
    return text, unique_key


def check_topic(topic: str) -> None:
    problem = topic_problem(topic)
    if problem is not None:
        raise UsageError(problem)
    if topic in SEND_FORBIDDEN_TOPICS:
        raise UsageError(f"Sending message to topic [{topic}] is forbidden.")


def check_body(body: bytes) -> None:
    if not body:
        raise UsageError("the message body is empty, which RocketMQ does not allow")
    if len(body) > BODY_SIZE_MAX_BYTES:
        raise UsageError(f"{len(body)} bytes are more than a message may have: {BODY_SIZE_MAX_BYTES}")


@dataclass(frozen=True)
class ReceivedMessage:
    """What a consumer gets: a stored message, where it came from, and what it means to the application.

    ``stored`` is the record as it lies in the log. A message that came back over a retry topic shows the topic it was
    first sent to.
    """

    stored: StoredMessage
    broker_name: str

    @cached_property
    def properties(self) -> dict[str, str]:
        return self.stored.properties

    @cached_property
    def body(self) -> bytes:
        """Decompressed where it was compressed. ProtocolError where that fails."""
        return self.stored.plain_body()

    @property
    def topic(self) -> str:
        return self.properties.get(props.RETRY_TOPIC) or self.stored.topic

    @property
    def queue(self) -> MessageQueue:
        """The queue it was pulled from: of the retry topic for a message that came back."""
        return MessageQueue(self.stored.topic, self.broker_name, self.stored.queue_id)

    @property
    def queue_offset(self) -> int:
        return self.stored.queue_offset

    @property
    def tags(self) -> str | None:
        return self.properties.get(props.TAGS)

    @property
    def keys(self) -> list[str]:
        return self.properties.get(props.KEYS, "").split()

    @property
    def message_id(self) -> str:
        """The unique key, or the offset message id of a message whose producer gave it none."""
        return self.properties.get(props.UNIQUE_KEY) or self.stored.message_id

    @property
    def offset_message_id(self) -> str:
        return self.stored.message_id

    @property
    def reconsume_times(self) -> int:
        return self.stored.reconsume_times

    @property
    def born_timestamp_ms(self) -> int:
        return self.stored.born_timestamp_ms

    @property
    def store_timestamp_ms(self) -> int:
        return self.stored.store_timestamp_ms
