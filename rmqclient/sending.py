"""Conversion of messages to the ext fields and body of a send (``DefaultMQProducerImpl`` and ``Validators``, 5.5.0).

The producers and the admin client share it, so that all messages are compressed, keyed and checked alike. The part
that all sends from one group to one queue have in common is made once, which halves the cost of a send.
"""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rmqclient.message import Message, SendResult, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import UsageError
from rmqproto.headers.base import from_ext, to_ext
from rmqproto.headers.sending import SendAnswer, SendHeaderV2
from rmqproto.java.java_hash import java_hash, jump_hash
from rmqproto.message import properties as props
from rmqproto.message.compression import LEVEL, compressed
from rmqproto.message.message_id import UniqueIds
from rmqproto.message.record import BatchItem, encode_batch
from rmqproto.message.special_messages import ProducerSequence
from rmqproto.names import AUTO_CREATE_TOPIC, RETRY_PREFIX, SEND_FORBIDDEN_TOPICS, lite_topic_problem, topic_problem
from rmqproto.wire.command import Command
from rmqproto.wire.frames import BODY_SIZE_MAX_BYTES

BUSY_CODES = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})
"""Codes of a broker that is busy, or is not the master of its set at the moment. It has changed nothing, and a later
attempt may succeed."""

NEVER_CODES = frozenset({ResponseCode.MESSAGE_ILLEGAL})
"""Codes of a send that is refused because of the message itself."""

MESSAGE_SIZE_MAX_BYTES = 4 * 1024 * 1024
"""Apache's default for producers and brokers (``maxMessageSize``)."""

COMPRESS_FROM_BYTES = 4096

DEFAULT_TOPIC_QUEUE_NUMS = 4
"""Queues of a topic that the broker creates because of a send."""

STORED_CODES = frozenset(int(status.value) for status in SendStatus)
"""Codes of a send's answer after which the message is stored."""

_KEY_SEPARATOR = " "
_TOPICS_CHECKED_MAX = 1024
_ENCODED_LENGTH_MAX = 4
"""The most bytes that one character may take."""

# The names of V2's one-letter fields that differ from one send to the next.
_LETTERS = dict(zip(SendHeaderV2.__struct_fields__, SendHeaderV2.__struct_encode_fields__, strict=True))
_SYS_FLAG = _LETTERS["sys_flag"]
_BORN_TIMESTAMP = _LETTERS["born_timestamp"]
_FLAG = _LETTERS["flag"]
_PROPERTIES = _LETTERS["properties"]
_BATCH = _LETTERS["batch"]
_RETRY_COUNTS = {
    props.RECONSUME_TIME: _LETTERS["reconsume_times"],
    props.MAX_RECONSUME_TIMES: _LETTERS["max_reconsume_times"],
}

_unique_ids = UniqueIds()


class Compression(NamedTuple):
    """Which bodies are compressed, and how (``rmqproto.message.compression``)."""

    from_bytes: int = COMPRESS_FROM_BYTES
    kind: str = "zlib"
    level: int = LEVEL


COMPRESSION = Compression()


class EncodedSend(NamedTuple):
    """An encoded send. ``unique_keys``: those of its messages, joined by commas."""

    ext: dict[str, str]
    body: bytes
    unique_keys: str


class SendRequests:
    """Makes the sends from one producer group to one queue."""

    def __init__(
        self,
        queue: MessageQueue,
        producer_group: str,
        body_max_bytes: int = BODY_SIZE_MAX_BYTES,
        compression: Compression = COMPRESSION,
    ):
        """By default the broker decides how large a body or a batch may be. UsageError for a topic to which no client
        may send."""
        check_topic(queue.topic)
        self._body_max_bytes = body_max_bytes
        self._compression = compression
        self._is_retry = queue.topic.startswith(RETRY_PREFIX)
        self._common = to_ext(
            SendHeaderV2(
                producer_group=producer_group,
                topic=queue.topic,
                default_topic=AUTO_CREATE_TOPIC,
                default_topic_queue_nums=DEFAULT_TOPIC_QUEUE_NUMS,
                queue_id=queue.queue_id,
                born_timestamp=0,
                broker_name=queue.broker_name,
            )
        )

    def of(self, message: Message, sys_flag: int = 0) -> EncodedSend:
        """A send by 310. ``sys_flag`` adds bits to the sysFlag. UsageError for a message that no broker would take."""
        body = message.body
        check_body(body, self._body_max_bytes)
        ext = self._common.copy()
        if self._is_retry:
            # The retry counts travel in the header, and not among the properties.
            others = dict(message.properties)
            for name, letter in _RETRY_COUNTS.items():
                if name in others:
                    ext[letter] = others.pop(name)
            message = dataclasses.replace(message, properties=others)
        properties, unique_key = message_properties(message)
        if len(body) >= self._compression.from_bytes:
            body, bits = compressed(body, self._compression.kind, self._compression.level)
            sys_flag |= bits
        if sys_flag:
            ext[_SYS_FLAG] = str(sys_flag)
        if message.flag:
            ext[_FLAG] = str(message.flag)
        ext[_BORN_TIMESTAMP] = str(time.time_ns() // 1_000_000)
        ext[_PROPERTIES] = properties
        return EncodedSend(ext, body, unique_key)

    def of_copy(self, message: Message, *, born_timestamp_ms: int, compression: int = 0) -> EncodedSend:
        """As ``of``, for a message that was made earlier. ``compression``: the sysFlag bits of a body that is already
        compressed."""
        if not compression:
            encoded = self.of(message)
            encoded.ext[_BORN_TIMESTAMP] = str(born_timestamp_ms)
            return encoded
        check_body(message.body, self._body_max_bytes)
        ext = self._common.copy()
        properties, unique_key = message_properties(message)
        ext.update({_SYS_FLAG: str(compression), _BORN_TIMESTAMP: str(born_timestamp_ms), _PROPERTIES: properties})
        ext[_FLAG] = str(message.flag)
        return EncodedSend(ext, message.body, unique_key)

    def of_batch(self, messages: Iterable[Message]) -> EncodedSend:
        """A send by 320. UsageError if the messages cannot form a batch: one is delayed or of a lite topic, or they
        are too large together. Batches are never compressed."""
        items, unique_keys = [], []
        for message in messages:
            check_body(message.body, self._body_max_bytes)
            item, unique_key = _batch_item(message)
            items.append(item)
            unique_keys.append(unique_key)
        body = encode_batch(items)
        check_body(body, self._body_max_bytes)
        ext = self._common.copy()
        ext[_BATCH] = "true"
        ext[_BORN_TIMESTAMP] = str(time.time_ns() // 1_000_000)
        return EncodedSend(ext, body, ",".join(unique_keys))


def _batch_item(message: Message) -> tuple[BatchItem, str]:
    """A message of a batch, and its unique key. UsageError if it cannot be in one."""
    if message.is_delayed:
        raise UsageError("a batch cannot be delayed")
    if message.lite_topic is not None:
        raise UsageError("a batch cannot go to lite topics: send its messages one by one")
    properties, unique_key = message_properties(message)
    return BatchItem(message.flag, message.body, properties.encode()), unique_key


def split_batches(messages: Iterable[Message], max_bytes: int) -> Iterator[list[Message]]:
    """Batches of at most ``max_bytes`` as they are encoded, in the given order. UsageError for a message that is too
    large for a batch of its own (the batches before it were yielded), for one that cannot be in a batch, and for one of
    another topic."""
    batch: list[Message] = []
    batch_bytes = 0
    for number, message in enumerate(messages):
        if batch and message.topic != batch[0].topic:
            raise UsageError(f"message {number} goes to topic {message.topic}, and a batch to one: {batch[0].topic}")
        size_bytes = len(encode_batch([_batch_item(message)[0]]))
        if size_bytes > max_bytes:
            if batch:
                yield batch
            raise UsageError(f"message {number} takes {size_bytes} bytes in a batch, more than {max_bytes}")
        if batch and batch_bytes + size_bytes > max_bytes:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(message)
        batch_bytes += size_bytes
    if batch:
        yield batch


def send_result_untrusted(answer: Command, message_id: str, queue: MessageQueue) -> SendResult:
    """The result in an answer whose code is one of STORED_CODES. ProtocolError if it does not say what was stored."""
    stored = from_ext(answer.ext, SendAnswer)
    if stored.queue_id != queue.queue_id:  # the broker has chosen the queue
        queue = MessageQueue(queue.topic, queue.broker_name, stored.queue_id)
    return SendResult(
        SendStatus(answer.code),
        message_id,
        stored.message_id,
        queue,
        stored.queue_offset,
        region_id=stored.msg_region or "",
        is_trace_on=stored.trace_on != "false",
        recall_handle=stored.recall_handle,
    )


def message_properties(message: Message) -> tuple[str, str]:
    """The property text and the unique key in it: the message's own, or a new one. UsageError for a name or value that
    contains a separator, and for properties that are too long."""
    properties = dict(message.properties)
    if message.tags:
        properties[props.TAGS] = message.tags
    if message.keys:
        properties[props.KEYS] = message.keys if isinstance(message.keys, str) else _KEY_SEPARATOR.join(message.keys)
    if message.is_delayed:
        properties.update(_delay_properties(message))
    if message.lite_topic is not None:
        check_lite_topic(message.lite_topic)
        properties[props.LITE_TOPIC] = message.lite_topic
    if message.sharding_key is not None:
        properties[props.SHARDING_KEY] = message.sharding_key
    if message.priority is not None:
        properties[props.PRIORITY] = str(message.priority)
    unique_key = properties.get(props.UNIQUE_KEY) or _unique_ids.next()
    properties[props.UNIQUE_KEY] = unique_key
    properties.setdefault(props.WAIT, "true")
    try:
        text = props.render(properties)
    except ValueError as error:
        raise UsageError(str(error)) from None
    limit = props.PROPERTIES_SIZE_MAX_BYTES
    if len(text) * _ENCODED_LENGTH_MAX > limit and len(text.encode()) > limit:
        raise UsageError(f"the properties take more than {limit} bytes")
    return text, unique_key


def keyed_message(message: Message) -> Message:
    """The message with a unique key, which all attempts to send it share. UsageError for a delayed message, and for one
    with a priority, whose queue the broker chooses."""
    if message.is_delayed or message.priority is not None:
        raise UsageError("an idempotent producer's message can have neither a delay nor a priority")
    if props.UNIQUE_KEY in message.properties:
        return message
    return dataclasses.replace(message, properties={**message.properties, props.UNIQUE_KEY: _unique_ids.next()})


def numbered_message(message: Message, number: ProducerSequence) -> Message:
    """The message with the number by which its broker knows it when it is sent again."""
    return dataclasses.replace(message, properties={**message.properties, props.PRODUCER_SEQ: number.render()})


def _delay_properties(message: Message) -> dict[str, str]:
    """The properties of its delay. UsageError for several delays in one message, and for jitter in a delay by
    level."""
    wanted = {
        props.DELAY: message.delay_level,
        props.TIMER_DELAY_MS: math.ceil(message.delay_s * 1000),
        props.TIMER_DELIVER_MS: message.deliver_at_ms,
    }
    found = {name: value for name, value in wanted.items() if value}
    if len(found) > 1:
        raise UsageError("a message may have only one of delay_level, delay_s and deliver_at_ms")
    if message.jitter_ms < 0:
        raise UsageError(f"jitter_ms is {message.jitter_ms}, and no message comes before its time")
    if message.jitter_ms and props.DELAY in found:
        raise UsageError("jitter_ms is for delay_s and deliver_at_ms: the times of delay levels are fixed")
    later_ms = random.randint(0, message.jitter_ms)
    return {name: str(value + later_ms) for name, value in found.items()}


def lite_topic_queue(lite_topic: str, writable: Sequence[MessageQueue]) -> MessageQueue:
    """The queue of the parent topic that holds a lite topic's messages, by the rule of Apache's proxy. Each broker
    serves subscribers the part that it has itself. ``writable`` is sorted by broker name."""
    return writable[jump_hash(java_hash(lite_topic), len(writable))]


@lru_cache(_TOPICS_CHECKED_MAX)
def check_topic(topic: str) -> None:
    """UsageError for a name that is not legal, and for a topic that only the broker writes."""
    problem = topic_problem(topic)
    if problem is not None:
        raise UsageError(problem)
    if topic in SEND_FORBIDDEN_TOPICS:
        raise UsageError(f"Sending message to topic [{topic}] is forbidden.")


def check_lite_topic(lite_topic: str) -> None:
    """UsageError for a name that no lite topic can have."""
    if problem := lite_topic_problem(lite_topic):
        raise UsageError(problem)


def check_body(body: bytes, max_bytes: int = BODY_SIZE_MAX_BYTES) -> None:
    """UsageError for an empty body, and for one that is too large: by default, if no broker could take it."""
    if not body:
        raise UsageError("the message body is empty, which RocketMQ does not allow")
    if len(body) > max_bytes:
        raise UsageError(f"the body has {len(body)} bytes, more than a message may have: {max_bytes}")
