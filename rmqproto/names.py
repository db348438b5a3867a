"""Names of topics and groups: rules for legal names, system names, and the names of retry and dead-letter topics
(``TopicValidator``, ``MixAll`` and ``NamespaceUtil``, 5.5.0)."""

from __future__ import annotations

import re

TOPIC_LENGTH_MAX = 127
RETRY_OR_DLQ_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 120
LITE_TOPIC_LENGTH_MAX = 64

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
LIGHT_QUEUE_PREFIX = "%LMQ%"
_LITE_QUEUE_PREFIX = f"{LIGHT_QUEUE_PREFIX}$"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
TRANSACTION_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_TRANSACTION_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_TRANSACTION_OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRANSACTION_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
TIMER_TOPIC = "rmq_sys_wheel_timer"

SYSTEM_TOPICS = frozenset({
    AUTO_CREATE_TOPIC, SCHEDULE_TOPIC, BENCHMARK_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC,
    ROCKSDB_TRANSACTION_HALF_TOPIC, ROCKSDB_TRANSACTION_OP_TOPIC, TRANSACTION_CHECK_MAX_TIME_TOPIC, TRACE_TOPIC,
    SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC, CHECKPOINT_TOPIC,
})  # fmt: skip
"""System topics of every broker. The names of its cluster and of itself are also system topics, but only the broker
knows them."""

SEND_FORBIDDEN_TOPICS = frozenset({
    SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC, TRANSACTION_CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC,
    OFFSET_MOVED_TOPIC, ROCKSDB_TRANSACTION_HALF_TOPIC, ROCKSDB_TRANSACTION_OP_TOPIC,
})  # fmt: skip
"""Topics to which no client may send: only the broker writes them."""

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""The group with which a broker reads half and op messages."""

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
"""The group with which a broker reads the revive log."""

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
"""The producer group of messages that clients send themselves: copies to a retry topic, and replies."""

TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"
"""The group with which mqadmin, and so our tools, read messages."""

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""The namespace of the name server's key-value table with the queue counts of ordered topics: topic to
``broker-a:4;broker-b:8``."""

SYSTEM_GROUPS = frozenset({
    "DEFAULT_PRODUCER", "DEFAULT_CONSUMER", TOOLS_CONSUMER_GROUP, "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER",
    "__MONITOR_CONSUMER", INNER_PRODUCER_GROUP, "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", TRANSACTION_GROUP,
})  # fmt: skip

LEGAL_NAME = r"[%|a-zA-Z0-9_-]+"
LEGAL_LITE_NAME = r"[a-zA-Z0-9_-]+"
LEGAL_NAME_RULE = "^[%|a-zA-Z0-9_-]+$"


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def group_in_topic(topic: str) -> str | None:
    """The group whose retry or dead-letter topic this is; None for another name."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return None


def reply_topic(cluster: str) -> str:
    """The topic of the replies to a cluster's requests."""
    return f"{cluster}_REPLY_TOPIC"


def revive_topic(cluster: str) -> str:
    """The topic of POP's check points and acknowledgements."""
    return f"rmq_sys_REVIVE_LOG_{cluster}"


MEMBER_GROUP_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""The prefix of topics by which brokers find each other. Their routes never name an acting master."""


def member_group_topic(broker_name: str) -> str:
    """The topic whose route lets the brokers of a name find each other. It holds no messages."""
    return MEMBER_GROUP_PREFIX + broker_name


def lite_queue_name(parent_topic: str, lite_topic: str) -> str:
    """The light queue that holds a lite topic's messages (``LiteUtil.toLmqName``)."""
    return f"{_LITE_QUEUE_PREFIX}{parent_topic}${lite_topic}"


def lite_names_of(queue: str) -> tuple[str, str] | None:
    """The parent topic and the lite topic of a light queue; None if it does not belong to a lite topic."""
    if not queue.startswith(_LITE_QUEUE_PREFIX):
        return None
    parent, _, lite_topic = queue[len(_LITE_QUEUE_PREFIX) :].partition("$")
    return (parent, lite_topic) if parent and lite_topic and "$" not in lite_topic else None


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


SYSTEM_TOPIC_PROBLEM = "The topic[{}] is conflict with system topic."
"""Why a broker neither makes, changes nor deletes a topic of its own, in Apache's words."""


def topic_problem(topic: str) -> str | None:
    """The reason why a broker refuses this topic name, in Apache's words; None if it is legal."""
    if not topic.strip():
        return "The specified topic is blank."
    if not re.fullmatch(LEGAL_NAME, topic):
        return f"The specified topic: {topic}, contains illegal characters, allowing only {LEGAL_NAME_RULE}"
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > (longest := RETRY_OR_DLQ_TOPIC_LENGTH_MAX):
            return (
                f"The specified topic is DLQ or Retry topic: {topic}, and it's longer than topic max length: {longest}"
            )
    elif len(topic) > TOPIC_LENGTH_MAX:
        return f"The specified topic: {topic}, is longer than topic max length: {TOPIC_LENGTH_MAX}"
    return None


def lite_topic_problem(lite_topic: str) -> str | None:
    """The reason why a lite topic cannot have this name, by the rule of Apache's proxy; None if it can."""
    if not re.fullmatch(LEGAL_LITE_NAME, lite_topic):
        return f"lite topic {lite_topic!r} can only contain alphanumeric characters, hyphens(-), and underscores(_)"
    if len(lite_topic) > LITE_TOPIC_LENGTH_MAX:
        return f"lite topic {lite_topic!r} exceed the max size {LITE_TOPIC_LENGTH_MAX}"
    return None


def group_problem(group: str) -> str | None:
    """The reason why a broker refuses this group name, in Apache's words; None if it is legal."""
    if not group.strip():
        return "The specified group is blank."
    if not re.fullmatch(LEGAL_NAME, group):
        return f"The specified group: {group}, contains illegal characters, allowing only {LEGAL_NAME_RULE}"
    if len(group) > GROUP_LENGTH_MAX:
        return f"The specified group: {group}, is longer than group max length: {GROUP_LENGTH_MAX}"
    return None
