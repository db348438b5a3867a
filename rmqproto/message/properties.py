"""Message properties: ``name 0x01 value 0x02`` repeated (``MessageDecoder.string2messageProperties``, 5.5.0).

It handles the text form (in send headers) and the byte form (in records). The order is kept, but has no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rmqproto.errors import ProtocolError

PROPERTIES_SIZE_MAX_BYTES = 32767
"""The limit, because a record's length field is a signed 16-bit number."""

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"

# Names with a meaning to brokers or clients (MessageConst, 5.5.0), as they appear on the wire.
KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
LITE_TOPIC = "__LITE_TOPIC"
PRIORITY = "_SYS_MSG_PRIORITY_"
SHARDING_KEY = "__SHARDINGKEY"
MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
DELAY = "DELAY"
RETRY_TOPIC = "RETRY_TOPIC"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRAN_MSG = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRACE_CONTEXT = "TRACE_CONTEXT"
BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DELETE_UNIQUE_KEY = "TIMER_DEL_UNIQKEY"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
UNIQUE_KEY = "UNIQ_KEY"
CLUSTER = "CLUSTER"
POP_CK = "POP_CK"
FIRST_POP_TIME = "1ST_POP_TIME"
ORIGIN_GROUP = "ORIGIN_GROUP"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
MSG_TYPE = "MSG_TYPE"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
ARRIVE_TIME = "ARRIVE_TIME"
CONSUME_START_TIME = "CONSUME_START_TIME"

INNER_NUM = "INNER_NUM"
PRODUCER_SEQ = "PRODUCER_SEQ"
"""Our property; see ``ProducerSequence``."""


TIMER_NAMES = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""If a message has several, the first of these counts."""
DELAYING_NAMES = frozenset({DELAY, *TIMER_NAMES})
"""A message that is sent with one of these is delivered later. Dead letters have DELAY, too."""

MARKS_OF_USE = frozenset({
    RETRY_TOPIC, DELAY, RECONSUME_TIME, MAX_RECONSUME_TIMES, REAL_TOPIC, REAL_QUEUE_ID, MIN_OFFSET, MAX_OFFSET,
    TRAN_MSG, PRODUCER_GROUP, WAIT, POP_CK, CONSUME_START_TIME, "POP_CK_OFFSET", FIRST_POP_TIME, ORIGIN_GROUP,
    TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES,
    "TIMER_ROLL_LABEL", TIMER_OUT_MS, TIMER_DELETE_UNIQUE_KEY, "TIMER_DELAY_LEVEL", TRANSACTION_ID,
    TRANSACTION_CHECK_TIMES, TRAN_PREPARED_QUEUE_OFFSET, CHECK_IMMUNITY_TIME_IN_SECONDS, INNER_NUM, "INNER_BASE",
    MULTI_DISPATCH, MULTI_QUEUE_OFFSET, "__CRC32#", PRODUCER_SEQ,
})  # fmt: skip
"""Properties that retries, delays, transactions, pop, timers and batches leave on a stored message. In a copy that is
sent, they would delay it, hide it, or send it elsewhere."""


def split_keys(text: str) -> list[str]:
    """The keys in the property KEYS. Only the blank separates them (``KEY_SEPARATOR``): other white space, such as
    U+3000, belongs to a key."""
    return [key for key in text.split(" ") if key]


def parse(text: str) -> dict[str, str]:
    """Names and values of a property string, as Java reads it: an entry without a separator, or without a character on
    both sides of it, is ignored. Never fails."""
    found: dict[str, str] = {}
    for entry in text.split(PROPERTY_SEPARATOR):
        name, separator, value = entry.partition(NAME_VALUE_SEPARATOR)
        if separator and name and value:
            found[name] = value
    return found


def parse_untrusted(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """As ``parse``, for the bytes of a record. ProtocolError if they are not UTF-8."""
    try:
        return parse(str(data, "utf-8"))
    except UnicodeDecodeError as error:
        raise ProtocolError(f"message properties are not UTF-8: {error}") from None


def real_queue_untrusted(properties: Mapping[str, str]) -> tuple[str, int]:
    """Topic and queue id that a message is for which waits elsewhere: delayed, a timer, or half of a transaction."""
    try:
        return properties[REAL_TOPIC], int(properties[REAL_QUEUE_ID])
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"a message that waits, without the queue that it is for: {error!r}") from None


def render(properties: Mapping[str, str]) -> str:
    """The property string, every entry closed by 0x02 as 5.x writes it.

    ValueError for a name or value that holds a separator: it would be read back as something else.
    """
    parts = []
    for name, value in properties.items():
        if "\x01" in name or "\x02" in name or "\x01" in value or "\x02" in value:
            raise ValueError(f"property {name!r} holds a separator (0x01 or 0x02)")
        parts.append(f"{name}\x01{value}\x02")
    return "".join(parts)


def joined(properties: Mapping[str, str]) -> bytes:
    """The bytes for a record. A value keeps the separators that it came with, as in Apache's broker."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()


def find_bytes(properties: bytes, name_and_separator: bytes) -> bytes:
    """One value of a record's properties, without parsing the rest. Empty if it is missing. If there are several it is
    the last non-empty one, as with ``parse``."""
    before, found, rest = properties.rpartition(name_and_separator)
    value = rest.partition(b"\x02")[0]
    if found and value and (not before or before[-1] == 2):
        return value
    if found:
        for entry in reversed(properties.split(b"\x02")):
            if entry.startswith(name_and_separator) and len(entry) > len(name_and_separator):
                return entry[len(name_and_separator) :]
    return b""


MessageKeys = tuple[bytes, bytes, bytes]
"""A message's UNIQ_KEY, KEYS and TAGS. Empty if it has none."""


def message_keys(properties: bytes) -> MessageKeys:
    return (
        find_bytes(properties, b"UNIQ_KEY\x01"),
        find_bytes(properties, b"KEYS\x01"),
        find_bytes(properties, b"TAGS\x01"),
    )


_TELLS_WHY = re.compile(r"error|exception|reason|cause|fail|stack", re.IGNORECASE)
"""Property names in which applications say what went wrong."""


def told_causes(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties in which the application says what went wrong."""
    return {name: value for name, value in properties.items() if _TELLS_WHY.search(name)}
