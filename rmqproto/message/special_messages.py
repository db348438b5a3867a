"""What the properties of special messages say: which half messages are dealt with, and how often their producers were
asked (``TransactionalMessageBridge``, 5.5.0), the offsets of a message in light queues (``MultiDispatchUtils``), the
numbers of sends, and what recalls a timer message."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.properties import PRODUCER_SEQ
from rmqproto.message.record import StoredMessage
from rmqproto.names import LIGHT_QUEUE_PREFIX

OP_TAG = "d"
OP_SEPARATOR = ","

DIGITS_MAX = 18
"""The most digits of a number, so that it fits Java's long."""


def ended_in(op: StoredMessage) -> list[int]:
    """The half queue offsets of an op message."""
    return offsets_of(op.body) if op.properties.get(props.TAGS) == OP_TAG else []


def offsets_of(op_body: bytes) -> list[int]:
    """Those in the body of an op message; 4.x wrote one, without a comma. Parts that are not numbers are skipped."""
    parts = op_body.split(OP_SEPARATOR.encode())
    return [int(part) for part in parts if part.isdigit() and len(part) <= DIGITS_MAX]


def check_times(properties: dict[str, str]) -> int:
    """How often the producer was asked; 0 for a message that was never put back."""
    return number_or(properties.get(props.TRANSACTION_CHECK_TIMES, "0"), 0)


def number_or(text: str, otherwise: int) -> int:
    """The number in a text, or ``otherwise``: a producer may write anything, and Python refuses thousands of digits."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else otherwise


# --- light queues ----------------------------------------------------------------------------------------------------


LIGHT_QUEUE_ID = 0
"""The only queue id of a light queue."""


def is_light_queue(queue: MessageQueue) -> bool:
    return queue.topic.startswith(LIGHT_QUEUE_PREFIX)


def light_queue_offset_untrusted(properties: Mapping[str, str], name: str) -> int:
    """The queue offset in the light queue of that name. ProtocolError if the message has none."""
    names = properties.get(props.MULTI_DISPATCH, "").split(",")
    offsets = properties.get(props.MULTI_QUEUE_OFFSET, "").split(",")
    found = dict(zip(names, offsets, strict=False)).get(name, "")
    if not (found.isascii() and found.isdecimal()):
        raise ProtocolError(f"a message in light queue {name} does not say at which offset")
    return int(found)


def queue_offset_in_untrusted(stored: StoredMessage, topic: str) -> int:
    """The queue offset in the queue of ``topic`` from which the record was read. For a light queue it differs from the
    record's own. ProtocolError as above."""
    if topic.startswith(LIGHT_QUEUE_PREFIX):
        return light_queue_offset_untrusted(stored.properties, topic)
    return stored.queue_offset


# --- numbered sends --------------------------------------------------------------------------------------------------


REPEATS_KNOWN = 256
"""The count of a producer's newest messages in a queue whose places the broker remembers, and so the most that may be
under way at a time."""

STORED_SOMEWHERE = "was stored, but it is not known where"
"""In the refusal of a message that was stored before the newest ones."""

# Id, epoch and sequence, separated by colons: "9f0c51d2:0:17".
_FORM = re.compile(r"([0-9A-Za-z_-]{1,64}):([0-9]{1,9}):([0-9]{1,18})", re.ASCII)


class ProducerSequence(NamedTuple):
    """By it a broker recognises a producer's message that is sent again: our extension, a property that other brokers
    store and ignore. ``sequence`` counts the messages of one producer and one queue from 0, and again from 0 with a
    higher ``epoch``."""

    producer_id: str
    epoch: int
    sequence: int

    def render(self) -> str:
        return f"{self.producer_id}:{self.epoch}:{self.sequence}"


def parse_sequence_untrusted(text: str) -> ProducerSequence:
    """A number from its text. ProtocolError if the text is not one."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ProtocolError(f"{PRODUCER_SEQ} is id:epoch:sequence, as in 9f0c51d2:0:17, and not {text[:80]!r}")
    return ProducerSequence(found[1], int(found[2]), int(found[3]))


# --- recalls ---------------------------------------------------------------------------------------------------------


_VERSION = "v1"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class RecallHandle(NamedTuple):
    """By it a producer recalls a timer message (``RecallMessageHandle``, 5.5.0): URL-safe base64 of ``v1 topic
    broker-name time-ms unique-key``. ``deliver_ms`` is the text as it came; what is no number is an impossible time."""

    topic: str
    broker_name: str
    deliver_ms: str
    unique_key: str

    def render(self) -> str:
        text = " ".join((_VERSION, *self)).encode()
        # The function of the base64 module takes twice as long.
        return binascii.b2a_base64(text, newline=False).translate(_URL_SAFE).decode()


def parse_recall_untrusted(text: str) -> RecallHandle:
    """A handle from its text. ProtocolError, in Apache's words, if it is not valid."""
    try:
        parts = base64.b64decode(text.encode(), altchars=b"-_", validate=True).decode().split(" ")
    except (binascii.Error, UnicodeError, ValueError):
        parts = []
    if len(parts) != 5 or parts[0] != _VERSION:
        raise ProtocolError("recall handle is invalid")
    return RecallHandle(*parts[1:])


def is_recalled(waiting: StoredMessage, keys: Collection[str]) -> bool:
    """Whether one of these keys recalls the timer message. A recall names the unique key, or the topic and the unique
    key (``appendTopicForTimerDeleteKey``; Apache up to 5.3.3)."""
    if not keys:
        return False
    found = waiting.properties
    key = found.get(props.UNIQUE_KEY)
    return key in keys or f"{found.get(props.REAL_TOPIC)}+{key}" in keys
