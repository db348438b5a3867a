"""What a call may name and carry, in the words of Apache's proxy (``GrpcValidator``, ``SendMessageActivity``,
5.5.0)."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from rmqproto.codes import TopicMessageType as Type
from rmqproto.filters.subscription import ALL, SQL92, TAG, TAG_SEPARATOR
from rmqproto.message import properties as props
from rmqproto.names import (
    DLQ_PREFIX,
    GROUP_LENGTH_MAX,
    LEGAL_LITE_NAME,
    LEGAL_NAME,
    LEGAL_NAME_RULE,
    LITE_TOPIC_LENGTH_MAX,
    RETRY_PREFIX,
    SYSTEM_GROUP_PREFIX,
    TOPIC_LENGTH_MAX,
    is_system_topic,
)
from rmqserver.doors.grpc.codes import CallRefused, Code, refuse_if
from rmqserver.doors.grpc.messages import value

BODY_SIZE_MAX_BYTES = 4 << 20
BODY_TOO_LARGE = CallRefused(Code.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {BODY_SIZE_MAX_BYTES}")
USER_PROPERTIES_MAX = 128
USER_PROPERTIES_SIZE_MAX_BYTES = 16_384
MESSAGE_GROUP_SIZE_MAX_BYTES = 63
DELAY_MAX_MS = 86_400_000
RECOVERY_MAX_S = 3600
INVISIBLE_MIN_MS = 10_000
INVISIBLE_MAX_MS = 43_200_000

_LEGAL = re.compile(LEGAL_NAME)
_ILLEGAL = f"contains illegal characters, allowing only {LEGAL_NAME_RULE}"
_SQL = value("FilterType", "SQL")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

SYSTEM_PROPERTIES = props.MARKS_OF_USE - {
    props.PRODUCER_SEQ, props.TRANSACTION_ID, props.TRANSACTION_CHECK_TIMES, props.CHECK_IMMUNITY_TIME_IN_SECONDS,
} | {
    props.KEYS, props.TAGS, props.UNIQUE_KEY, props.MSG_REGION, props.TRACE_ON, props.CLUSTER, props.ORIGIN_MESSAGE_ID,
    props.MSG_TYPE, props.CORRELATION_ID, props.REPLY_TO_CLIENT, props.TTL, props.PUSH_REPLY_TIME, props.ARRIVE_TIME,
    props.BORN_TIMESTAMP, props.PRIORITY, props.LITE_TOPIC, props.DLQ_ORIGIN_TOPIC, props.DLQ_ORIGIN_MESSAGE_ID,
    "INSTANCE_ID", "EXTEND_UNIQ_INFO", "DUP_INFO", "BUYER_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG",
    props.BORN_HOST,
}  # fmt: skip
"""Names that no user property may have (``MessageConst.STRING_HASH_SET``)."""


class Filter(NamedTuple):
    kind: str
    expression: str


@functools.lru_cache(maxsize=1024)  # those that pass; they are short
def check_topic(topic: str) -> None:
    code, said = Code.ILLEGAL_TOPIC, "The specified topic"
    refuse_if(not topic.strip(), code, f"{said} is blank")
    refuse_if(len(topic) > TOPIC_LENGTH_MAX, code, f"{said} is longer than topic max length {TOPIC_LENGTH_MAX}.")
    refuse_if(not _LEGAL.fullmatch(topic), code, f"{said}[{topic}] {_ILLEGAL}")
    refuse_if(is_system_topic(topic), code, "cannot access system topic")


@functools.lru_cache(maxsize=1024)
def check_group(group: str) -> None:
    """DEFAULT_CONSUMER and its like may be used."""
    code, said = Code.ILLEGAL_CONSUMER_GROUP, "the specified group"
    refuse_if(not group.strip(), code, f"{said} is blank")
    is_long = len(group) > GROUP_LENGTH_MAX
    refuse_if(is_long, code, f"{said}[{group}] is longer than group max length: {GROUP_LENGTH_MAX}.")
    refuse_if(not _LEGAL.fullmatch(group), code, f"{said}[{group}] {_ILLEGAL}")
    refuse_if(group.startswith(SYSTEM_GROUP_PREFIX), code, "cannot use system consumer group")


def checked_names(topic: Any, group: Any) -> tuple[str, str]:
    """The names of these Resources. Raises CallRefused if clients may not use them."""
    check_topic(topic.name)
    check_group(group.name)
    return topic.name, group.name


def check_filter(wanted: Any) -> Filter:
    """What a client wants of a topic. Broken SQL92 shows where it is compiled."""
    kind, text, code = SQL92 if wanted.type == _SQL else TAG, wanted.expression, Code.ILLEGAL_FILTER_EXPRESSION
    refuse_if(kind == SQL92 and not text, code, f"Expression can't be null! {kind}")
    refuse_if(kind == TAG and text and not text.replace(TAG_SEPARATOR, ""), code, "subString split error")
    return Filter(kind, text or ALL)


def check_message(system: Any, body: bytes, user_properties: dict[str, str], now_ms: int) -> None:
    """One message of a send, but for its type. Raises CallRefused for the first thing that is wrong."""
    refuse_if(not body, Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(body) > BODY_SIZE_MAX_BYTES:
        raise BODY_TOO_LARGE
    _check_names(system)
    _check_user_properties(user_properties, system)
    _check_times(system, now_ms)
    if system.lite_topic:
        check_lite_topic(system.lite_topic)
    refuse_if(system.priority < 0, Code.BAD_REQUEST, "The priority must be greater than or equal to 0.")


def _check_names(system: Any) -> None:
    """An empty one is none."""
    tag, group, message_id = system.tag, system.message_group, system.message_id
    if tag:
        _check_text(Code.ILLEGAL_MESSAGE_TAG, "tag", tag)
        refuse_if("|" in tag, Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    for key in system.keys:
        if key:
            _check_text(Code.ILLEGAL_MESSAGE_KEY, "key", key)
    if group:
        size = MESSAGE_GROUP_SIZE_MAX_BYTES
        _check_text(Code.ILLEGAL_MESSAGE_GROUP, "message group", group)
        is_long = len(group.encode()) > size
        refuse_if(is_long, Code.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {size + 1}")
    refuse_if(not message_id.strip(), Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    _check_control(Code.ILLEGAL_MESSAGE_ID, "message id", message_id)
    # It would end its property and begin another, which may be the broker's own.
    _check_control(Code.BAD_REQUEST, "trace context", system.trace_context)
    _check_control(Code.BAD_REQUEST, "born host", system.born_host)


def _check_times(system: Any, now_ms: int) -> None:
    if system.HasField("delivery_timestamp"):
        is_far = ms_of(system.delivery_timestamp) - now_ms > DELAY_MAX_MS
        text = f"the max delay time of message is too large, max is {DELAY_MAX_MS}"
        refuse_if(is_far, Code.ILLEGAL_DELIVERY_TIME, text)
    if system.orphaned_transaction_recovery_duration.seconds > RECOVERY_MAX_S:
        text = f"the max transaction recovery time of message is too large, max is {RECOVERY_MAX_S}"
        raise CallRefused(Code.BAD_REQUEST, text)


def check_lite_topic(name: str) -> None:
    code, longest = Code.ILLEGAL_LITE_TOPIC, LITE_TOPIC_LENGTH_MAX
    refuse_if(not name.strip(), code, "lite topic cannot be the char sequence of whitespace")
    refuse_if(len(name) > longest, code, f"lite topic exceed the max size {longest}")
    text = "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)"
    refuse_if(not re.fullmatch(LEGAL_LITE_NAME, name), code, text)


def check_type(expected: str, actual: Type, topic: str) -> None:
    """A topic takes messages of its own type, a mixed one all (``DefaultTopicMessageTypeValidator``)."""
    if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        text = f"TopicMessageType validate failed, the expected type is {expected}, but actual type is {actual}"
        refuse_if(expected not in (Type.MIXED, actual), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)


def check_invisible_ms(invisible_ms: int, least_ms: int) -> None:
    code, most_ms = Code.ILLEGAL_INVISIBLE_TIME, INVISIBLE_MAX_MS
    refuse_if(invisible_ms < least_ms, code, f"the invisibleTime is too small. min is {least_ms}")
    refuse_if(invisible_ms > most_ms, code, f"the invisibleTime is too large. max is {most_ms}")


def ms_of(time: Any) -> int:
    """A Timestamp or a Duration in ms."""
    return time.seconds * 1000 + time.nanos // 1_000_000  # type: ignore[no-any-return]


def _check_text(code: Code, what: str, text: str) -> None:
    if not text.strip():
        raise CallRefused(code, f"{what} cannot be the char sequence of whitespace")
    _check_control(code, what, text)


def _check_control(code: Code, what: str, text: str) -> None:
    if _CONTROL.search(text):
        raise CallRefused(code, f"{what} cannot contain control character")


def _check_user_properties(properties: dict[str, str], system: Any) -> None:
    """Tag and keys count as the user's."""
    many, code = Code.MESSAGE_PROPERTIES_TOO_LARGE, Code.ILLEGAL_MESSAGE_PROPERTY_KEY
    refuse_if(len(properties) > USER_PROPERTIES_MAX, many, f"too many user properties, max is {USER_PROPERTIES_MAX}")
    for name in SYSTEM_PROPERTIES.intersection(properties):
        raise CallRefused(code, f"property is used by system: {name}")
    _check_control(code, "the key of property", " ".join(properties))
    _check_control(code, "the value of property", " ".join(properties.values()))
    texts = (system.tag, *system.keys, *properties, *properties.values())
    is_large = sum(len(text.encode()) for text in texts) > USER_PROPERTIES_SIZE_MAX_BYTES
    refuse_if(is_large, many, f"the total size of user property is too large, max is {USER_PROPERTIES_SIZE_MAX_BYTES}")
