"""The properties of a message on its way into the store: what the broker adds to every message, and the names that ask
for more than storing (``SendMessageProcessor`` and ``HookUtils``, 5.5.0).

Nearly all messages ask for nothing more; ``USUAL`` finds that out in one look.
"""

from __future__ import annotations

import re

from rmqproto.codes import ResponseCode
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX
from rmqproto.properties import (
    CLUSTER,
    DELAY,
    KEYS,
    MSG_REGION,
    POP_CK,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from rmqserver.answer import Refused

LITE_TOPIC = "__LITE_TOPIC"
MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
PRIORITY = "_SYS_MSG_PRIORITY_"
SHARDING_KEY = "__SHARDINGKEY"
INNER_NUM = "INNER_NUM"
TIMER_NAMES = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")


_NAMES_WITH_A_MEANING = (
    UNIQUE_KEY, KEYS, TAGS, TRANSACTION_PREPARED, DELAY, *TIMER_NAMES, POP_CK, LITE_TOPIC, MULTI_DISPATCH, PRIORITY,
    INNER_NUM, MSG_REGION, TRACE_ON, CLUSTER,
)  # fmt: skip
USUAL = re.compile(
    rb"(?:UNIQ_KEY\x01([0-9A-Za-z]++)\x02|KEYS\x01([^\x02]++)\x02|TAGS\x01([^\x02]++)\x02|WAIT\x01[^\x02]++\x02"
    rb"|(?!(?:%b)\x01)[^\x01\x02]++\x01[^\x02]++\x02)*+" % "|".join(_NAMES_WITH_A_MEANING).encode()
)
"""Matches, whole, the properties of a message that asks for nothing but being stored, and not those of one that is to
be delayed, is half of a transaction, is sent once more ... They end with a separator. The groups are the MessageKeys;
the unique key is alphanumeric."""


def parse_int(text: str) -> int:
    """A number as Java reads it. Refused with 1 where it is none."""
    try:
        return int(text)
    except ValueError:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"a number is needed, not {text[:40]!r}") from None


def delay_level(properties: dict[str, str]) -> int:
    """0 where the message is not to be delayed."""
    text = properties.get(DELAY)
    return parse_int(text) if text is not None else 0


def delayed(topic: str, queue_id: int, properties: dict[str, str], level_max: int) -> tuple[str, int]:
    """Where a message waits that has a delay level: its queue of the schedule topic. The real target is noted in
    ``properties``. Any other message stays where it was meant to go."""
    level = min(delay_level(properties), level_max)
    if level <= 0:
        return topic, queue_id
    properties[DELAY] = str(level)
    properties[REAL_TOPIC] = topic
    properties[REAL_QUEUE_ID] = str(queue_id)
    return SCHEDULE_TOPIC, level - 1


def refuse_what_is_not_served(properties: dict[str, str], sys_flag: int, reconsume_times: int, own_ip: str) -> None:
    """Half messages, timers of any delay, inner batches: refused in Apache's words for a broker without them, because
    stored as they are they would be delivered at once."""
    level = delay_level(properties)
    if properties.get(TRANSACTION_PREPARED, "").lower() == "true" and not (reconsume_times > 0 and level > 0):
        text = f"the broker[{own_ip}] sending transaction message is forbidden"
        raise Refused(ResponseCode.NO_PERMISSION, text)
    if INNER_NUM in properties or sys_flag & 0x80:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "inner batches are not served")
    if level <= 0 and any(name in properties for name in TIMER_NAMES):
        text = "accurate timer message is not enabled, timerWheelEnable is false"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)


def choose_priority_queue(properties: dict[str, str], queue_id: int, write_queue_nums: int) -> int:
    """The queue of a message with a priority; the property goes where something else decides on the queue."""
    text = properties.get(PRIORITY)
    if text is None or parse_int(text) < 0:
        return queue_id
    if any(name in properties for name in (TRANSACTION_PREPARED, DELAY, SHARDING_KEY, *TIMER_NAMES)):
        del properties[PRIORITY]
        return queue_id
    return min(int(text), max(write_queue_nums - 1, 0))


def note_lite_topic(topic: str, properties: dict[str, str]) -> None:
    """A lite topic is named as the light queue that it would be dispatched to."""
    lite_topic = properties.get(LITE_TOPIC)
    if lite_topic and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX)):
        properties[MULTI_DISPATCH] = f"%LMQ%${topic}${lite_topic}"


def join(properties: dict[str, str]) -> bytes:
    """As a record holds them. A value keeps the separators that it came with, as in Apache's broker."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
