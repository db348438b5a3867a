"""What a call may name and carry, in the words of Apache's proxy (``GrpcValidator``, ``SendMessageActivity``,
5.5.0)."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

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
from rmqproto.topic_message_type import TopicMessageType as Type
from rmqserver.doors.grpc.codes import CallRefused, Code
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
    if not topic.strip():
        raise CallRefused(Code.ILLEGAL_TOPIC, "The specified topic is blank")
    if len(topic) > TOPIC_LENGTH_MAX:
        raise CallRefused(
            Code.ILLEGAL_TOPIC, f"The specified topic is longer than topic max length {TOPIC_LENGTH_MAX}."
        )
    if not _LEGAL.fullmatch(topic):
        text = f"The specified topic[{topic}] contains illegal characters, allowing only {LEGAL_NAME_RULE}"
        raise CallRefused(Code.ILLEGAL_TOPIC, text)
    if is_system_topic(topic):
        raise CallRefused(Code.ILLEGAL_TOPIC, "cannot access system topic")


@functools.lru_cache(maxsize=1024)
def check_group(group: str) -> None:
    if not group.strip():
        raise CallRefused(Code.ILLEGAL_CONSUMER_GROUP, "the specified group is blank")
    if len(group) > GROUP_LENGTH_MAX:
        text = f"the specified group[{group}] is longer than group max length: {GROUP_LENGTH_MAX}."
        raise CallRefused(Code.ILLEGAL_CONSUMER_GROUP, text)
    if not _LEGAL.fullmatch(group):
        text = f"the specified group[{group}] contains illegal characters, allowing only {LEGAL_NAME_RULE}"
        raise CallRefused(Code.ILLEGAL_CONSUMER_GROUP, text)
    if group.startswith(SYSTEM_GROUP_PREFIX):  # DEFAULT_CONSUMER and its like may be used
        raise CallRefused(Code.ILLEGAL_CONSUMER_GROUP, "cannot use system consumer group")


def checked_names(topic: Any, group: Any) -> tuple[str, str]:
    """The names of these Resources. Raises CallRefused if clients may not use them."""
    check_topic(topic.name)
    check_group(group.name)
    return topic.name, group.name


def check_filter(wanted: Any) -> Filter:
    """What a client wants of a topic. Broken SQL92 shows where it is compiled."""
    kind, text = SQL92 if wanted.type == _SQL else TAG, wanted.expression
    if kind == SQL92 and not text:
        raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, f"Expression can't be null! {kind}")
    if kind == TAG and text and not text.replace(TAG_SEPARATOR, ""):
        raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, "subString split error")
    return Filter(kind, text or ALL)


class SentMessage(NamedTuple):
    """A message of a client, with what would be made anew at each look."""

    message: Any
    body: bytes
    user_properties: dict[str, str]


def check_message(asked: SentMessage, now_ms: int) -> None:
    """One message of a send, but for its type. Raises CallRefused for the first thing that is wrong."""
    system, size = asked.message.system_properties, len(asked.body)
    if not size:
        raise CallRefused(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if size > BODY_SIZE_MAX_BYTES:
        raise BODY_TOO_LARGE
    _check_names(system)
    _check_user_properties(asked.user_properties, system)
    _check_times(system, now_ms)
    if system.lite_topic:
        check_lite_topic(system.lite_topic)
    if system.priority < 0:
        raise CallRefused(Code.BAD_REQUEST, "The priority must be greater than or equal to 0.")


def _check_names(system: Any) -> None:
    """An empty one is none."""
    tag, group, message_id = system.tag, system.message_group, system.message_id
    if tag:
        _check_text(Code.ILLEGAL_MESSAGE_TAG, "tag", tag)
        if "|" in tag:
            raise CallRefused(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    for key in system.keys:
        if key:
            _check_text(Code.ILLEGAL_MESSAGE_KEY, "key", key)
    if group:
        size = MESSAGE_GROUP_SIZE_MAX_BYTES
        _check_text(Code.ILLEGAL_MESSAGE_GROUP, "message group", group)
        if len(group.encode()) > size:
            raise CallRefused(Code.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {size + 1}")
    if not message_id.strip():
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    if _CONTROL.search(message_id):
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, "message id cannot contain control character")
    for what, text in (("trace context", system.trace_context), ("born host", system.born_host)):
        if _CONTROL.search(text):  # it would end its property and begin another, which may be the broker's own
            raise CallRefused(Code.BAD_REQUEST, f"{what} cannot contain control character")


def _check_times(system: Any, now_ms: int) -> None:
    if system.HasField("delivery_timestamp") and ms_of(system.delivery_timestamp) - now_ms > DELAY_MAX_MS:
        text = f"the max delay time of message is too large, max is {DELAY_MAX_MS}"
        raise CallRefused(Code.ILLEGAL_DELIVERY_TIME, text)
    has_recovery = system.HasField("orphaned_transaction_recovery_duration")
    if has_recovery and system.orphaned_transaction_recovery_duration.seconds > RECOVERY_MAX_S:
        text = f"the max transaction recovery time of message is too large, max is {RECOVERY_MAX_S}"
        raise CallRefused(Code.BAD_REQUEST, text)


def check_lite_topic(name: str) -> None:
    if not name.strip():
        raise CallRefused(Code.ILLEGAL_LITE_TOPIC, "lite topic cannot be the char sequence of whitespace")
    if len(name) > LITE_TOPIC_LENGTH_MAX:
        raise CallRefused(Code.ILLEGAL_LITE_TOPIC, f"lite topic exceed the max size {LITE_TOPIC_LENGTH_MAX}")
    if not re.fullmatch(LEGAL_LITE_NAME, name):
        text = "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)"
        raise CallRefused(Code.ILLEGAL_LITE_TOPIC, text)


def check_type(expected: str, actual: Type, topic: str) -> None:
    """A topic takes messages of its own type, a mixed one all (``DefaultTopicMessageTypeValidator``)."""
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return
    if expected not in (Type.MIXED, actual):
        text = f"TopicMessageType validate failed, the expected type is {expected}, but actual type is {actual}"
        raise CallRefused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)


def check_invisible_ms(invisible_ms: int, least_ms: int) -> None:
    if invisible_ms < least_ms:
        raise CallRefused(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {least_ms}")
    if invisible_ms > INVISIBLE_MAX_MS:
        raise CallRefused(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too large. max is {INVISIBLE_MAX_MS}")


def ms_of(time: Any) -> int:
    """A Timestamp or a Duration in ms."""
    return time.seconds * 1000 + time.nanos // 1_000_000  # type: ignore[no-any-return]


def _check_text(code: Code, what: str, text: str) -> None:
    if not text.strip():
        raise CallRefused(code, f"{what} cannot be the char sequence of whitespace")
    if _CONTROL.search(text):
        raise CallRefused(code, f"{what} cannot contain control character")


def _check_user_properties(properties: dict[str, str], system: Any) -> None:
    """Tag and keys count as the user's."""
    if len(properties) > USER_PROPERTIES_MAX:
        text = f"too many user properties, max is {USER_PROPERTIES_MAX}"
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
    size = sum(len(text.encode()) for text in (system.tag, *system.keys))
    for name, said in properties.items():
        if name in SYSTEM_PROPERTIES:
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        if _CONTROL.search(name):
            text = "the key of property cannot contain control character"
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
        if _CONTROL.search(said):
            text = "the value of property cannot contain control character"
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
        size += len(name.encode()) + len(said.encode())
    if size > USER_PROPERTIES_SIZE_MAX_BYTES:
        text = f"the total size of user property is too large, max is {USER_PROPERTIES_SIZE_MAX_BYTES}"
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
