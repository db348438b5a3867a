"""Properties that ask the broker for more than storing a message (``MessageConst`` and ``SendMessageProcessor``,
5.5.0). Nearly all messages ask for nothing more; ``USUAL`` recognizes them in one look."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from rmqproto.codes import ResponseCode
from rmqproto.java.java_numbers import INT_MAX
from rmqproto.message.properties import (
    CLUSTER,
    DELAY,
    INNER_NUM,
    KEYS,
    LITE_TOPIC,
    MSG_REGION,
    MULTI_DISPATCH,
    POP_CK,
    PRIORITY,
    PRODUCER_SEQ,
    TAGS,
    TIMER_NAMES,
    TRACE_ON,
    TRAN_MSG,
    UNIQUE_KEY,
    WAIT,
)
from rmqproto.message.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK, HOSTS_V6, MULTI_TAGS
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig

UNUSUAL_SYS_FLAG = ~(COMPRESSED | MULTI_TAGS | COMPRESSION_TYPE_MASK | HOSTS_V6)
"""A message with one of these bits may be half of a transaction, a batch in one record, or something unknown."""

ASKING_NAMES = (
    TRAN_MSG, DELAY, *TIMER_NAMES, POP_CK, PRODUCER_SEQ, LITE_TOPIC, MULTI_DISPATCH, PRIORITY, INNER_NUM, MSG_REGION,
    TRACE_ON, CLUSTER,
)  # fmt: skip
"""Messages that have one of these ask for more than to be stored."""

# Possessive quantifiers save the notes for backtracking, which would find nothing: no property matches in two ways.
# Python before 3.11.5 keeps half a property if the outer one is possessive.
_AGAIN = b"*+" if sys.version_info >= (3, 11, 5) else b"*"
USUAL = re.compile(
    rb"(?:UNIQ_KEY\x01([0-9A-Za-z]++)\x02|KEYS\x01([^\x02]++)\x02|TAGS\x01([^\x02]++)\x02|WAIT\x01[^\x02]++\x02"
    rb"|(?!(?:%b)\x01)[^\x01\x02]++\x01[^\x02]++\x02)%b"
    % ("|".join((UNIQUE_KEY, KEYS, TAGS, WAIT, *ASKING_NAMES)).encode(), _AGAIN)
)
"""Matches, in full, the properties of a message that asks only to be stored, and not those of one that is to be
delayed, is half of a transaction, is sent again ... They end with a separator. The groups are the MessageKeys; the
unique key is alphanumeric."""

_INT = re.compile(r"[+-]?[0-9]{1,10}")

_NO_WAIT = re.compile(rb"(?:^|\x02)WAIT\x01false\x02")


def waits_until_safe(properties: bytes) -> bool:
    """Whether the producer of a usual message waits for its flush and its copies, if the broker promises any
    (``Message.isWaitStoreMsgOK``)."""
    return b"WAIT\x01false\x02" not in properties or _NO_WAIT.search(properties) is None


def wants_safe(properties: dict[str, str]) -> bool:
    """As ``waits_until_safe``, for a message whose properties are parsed."""
    return properties.get(WAIT) != "false"


def added_by_broker(config: BrokerConfig) -> dict[str, str]:
    """The properties that the broker adds to every message that a producer sends, except in a batch."""
    return {
        MSG_REGION: config.region_id,
        TRACE_ON: "true" if config.trace_on else "false",
        CLUSTER: config.broker_cluster_name,
    }


def as_int(text: str) -> int | None:
    """A number as Java's ``Integer.parseInt`` reads it; None if it is none."""
    if not _INT.fullmatch(text) or not -INT_MAX - 1 <= int(text) <= INT_MAX:
        return None
    return int(text)


def delay_level(properties: dict[str, str]) -> int:
    """The message's delay level; 0 if it is not to be delayed. Raises Refused with 1 if it is no number."""
    text = properties.get(DELAY)
    if text is None:
        return 0
    level = as_int(text)
    if level is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"a number is needed, not {text[:40]!r}")
    return level


def is_timer(properties: dict[str, str]) -> bool:
    return any(name in properties for name in TIMER_NAMES)
