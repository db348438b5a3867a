"""Bodies about offsets and statistics."""

from __future__ import annotations

from typing import Any

import msgspec

from rmqproto.bodies.base import Body, DataVersion, MessageQueue
from rmqproto.bodies.groups import CONSUME_PASSIVELY, SubscriptionData
from rmqproto.codes import VERSION, version_name
from rmqproto.java.java_numbers import Int32, Int64
from rmqproto.wire.fastjson import ObjectMap


class TopicOffset(Body, kw_only=True):
    """One queue's ends. ``max_offset`` is the offset that the next message will get. ``last_update_timestamp`` is 0 for
    an empty queue."""

    last_update_timestamp: Int64 = 0
    max_offset: Int64 = 0
    min_offset: Int64 = 0


class TopicStats(Body, kw_only=True):
    """``TopicStatsTable``: answer of 202."""

    offset_table: ObjectMap[MessageQueue, TopicOffset] = msgspec.field(default_factory=ObjectMap)
    topic_put_tps: float = 0.0


class ConsumeOffset(Body, kw_only=True):
    """One queue of one group. Broker, consumer and pull offsets are queue offsets."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0
    pull_offset: Int64 = 0


def lag_between(committed_offset: int, end_offset: int) -> int:
    """Messages of a queue that a group has not committed. If the group's offset is past the queue's end, as after a
    broker lost messages, that is 0, and does not reduce the lag of other queues. For a group without an offset (-1), it
    is all messages."""
    return max(0, end_offset - max(0, committed_offset))


def lag_of(entry: ConsumeOffset) -> int:
    """``lag_between`` for the offsets of one queue."""
    return lag_between(entry.consumer_offset, entry.broker_offset)


def unread_offset(committed_offset: int | None, ends: TopicOffset) -> ConsumeOffset | None:
    """Where a group stands in a queue that consumers do not read, of which brokers tell no lag. None if it has nothing
    left there."""
    at = max(committed_offset or 0, ends.min_offset)
    if ends.max_offset <= at:
        return None
    return ConsumeOffset(broker_offset=ends.max_offset, consumer_offset=at, pull_offset=at)


class ConsumeStats(Body, kw_only=True):
    """Answer of 208."""

    consume_tps: float = 0.0
    offset_table: ObjectMap[MessageQueue, ConsumeOffset] = msgspec.field(default_factory=ObjectMap)


class ConsumeStatsList(Body, kw_only=True):
    """Answer of 317."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0


class GroupList(Body, kw_only=True):
    group_list: list[str] = []


class SubscriptionAnswer(Body, kw_only=True):
    """Answer of 345."""

    group: str
    subscription_data: SubscriptionData | None = None
    topic: str | None = None


class QueueTimeSpan(Body, kw_only=True):
    """One queue in the answer of 303; times in ms, -1 if unknown."""

    consume_time_stamp: Int64 = 0
    consume_time_stamp_str: str = ""
    delay_time: Int64 = 0
    max_time_stamp: Int64 = 0
    max_time_stamp_str: str = ""
    message_queue: MessageQueue
    min_time_stamp: Int64 = 0
    min_time_stamp_str: str = ""


class QueueTimeSpans(Body, kw_only=True):
    consume_time_span_set: list[QueueTimeSpan] = []


class ResetOffsets(Body, kw_only=True):
    """``ResetOffsetBody``: queue offsets by queue. Sent to clients other than C++, and the answer of 222."""

    offset_table: ObjectMap[MessageQueue, Int64] = msgspec.field(default_factory=ObjectMap)


class LocalOffsets(Body, kw_only=True):
    """``OffsetSerializeWrapper``: the file in which a member of a broadcasting group keeps its queue offsets."""

    offset_table: ObjectMap[MessageQueue, Int64] = msgspec.field(default_factory=ObjectMap)


class QueueOffset(Body, kw_only=True):
    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class ResetOffsetsForCpp(Body, kw_only=True):
    """``ResetOffsetBodyForC``: the same as a list."""

    offset_table: list[QueueOffset] = []


class ConsumerStatus(Body, kw_only=True):
    """``GetConsumerStatusBody``: a client fills ``message_queue_table``, a broker ``consumer_table`` by client id."""

    consumer_table: dict[str, ObjectMap[MessageQueue, Int64]] = {}
    message_queue_table: ObjectMap[MessageQueue, Int64] = msgspec.field(default_factory=ObjectMap)


class CorrectionOffsets(Body, kw_only=True):
    correction_offsets: dict[Int32, Int64] = {}


class ProcessQueueInfo(Body, kw_only=True):
    """One owned queue in a consumer's running info. ``droped`` is the wire's spelling."""

    cached_msg_count: Int32 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_size_in_mib: Int32 = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    commit_offset: Int64 = 0
    droped: bool = False
    last_consume_timestamp: Int64 = 0
    last_lock_timestamp: Int64 = 0
    last_pull_timestamp: Int64 = 0
    locked: bool = False
    transaction_msg_count: Int32 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_min_offset: Int64 = 0
    try_unlock_times: Int64 = 0


class ConsumeRates(Body, kw_only=True):
    """Rates of one topic in a consumer's running info; ``RT`` are ms."""

    consume_failed_msgs: Int64 = 0
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")


CONSUME_TYPE, CONSUME_ORDERLY, STARTED_MS = "PROP_CONSUME_TYPE", "PROP_CONSUMEORDERLY", "PROP_CONSUMER_START_TIMESTAMP"
THREADS = "PROP_THREADPOOL_CORE_SIZE"
"""Names of properties in a ``ConsumerRunningInfo``."""


class ConsumerRunningInfo(Body, kw_only=True):
    """Answer of 307, made by the client."""

    jstack: str | None = None
    mq_pop_table: ObjectMap[MessageQueue, dict[str, Any]] = msgspec.field(default_factory=ObjectMap)
    mq_table: ObjectMap[MessageQueue, ProcessQueueInfo] = msgspec.field(default_factory=ObjectMap)
    properties: dict[str, str] = {}
    status_table: dict[str, ConsumeRates] = {}
    subscription_set: list[SubscriptionData] = []
    user_consumer_info: dict[str, str] = {}

    @property
    def is_push(self) -> bool:
        return self.properties.get(CONSUME_TYPE) == CONSUME_PASSIVELY

    @property
    def is_orderly(self) -> bool:
        return self.properties.get(CONSUME_ORDERLY, "").lower() == "true"


def running_properties(consume_type: str, started_ms: int, namesrv_addrs: str, *, is_orderly: bool) -> dict[str, str]:
    """The properties that every consumer tells of itself."""
    return {
        "PROP_CLIENT_VERSION": version_name(VERSION),
        CONSUME_TYPE: consume_type,
        CONSUME_ORDERLY: "true" if is_orderly else "false",
        STARTED_MS: str(started_ms),
        "PROP_NAMESERVER_ADDR": namesrv_addrs,
    }


class ConsumeDirectlyResult(Body, kw_only=True):
    """Answer of 309, made by the client. Go sends the ordinal of ``consume_result``."""

    auto_commit: bool = True
    consume_result: str | Int32 | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Int64 = 0


class ConsumeQueueItem(Body, kw_only=True):
    """One unit in the answer of 321. ``physic_offset`` is the commit log offset."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0


class ConsumeQueueAnswer(Body, kw_only=True):
    """``QueryConsumeQueueResponseBody``: indexes are queue offsets."""

    filter_data: str | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
    queue_data: list[ConsumeQueueItem] = []
    subscription_data: SubscriptionData | None = None


class StatsSnapshot(Body, kw_only=True):
    avgpt: float = 0.0
    sum: Int64 = 0
    tps: float = 0.0


class BrokerStatsData(Body, kw_only=True):
    """``BrokerStatsData``: answer of 315."""

    stats_day: StatsSnapshot = msgspec.field(default_factory=StatsSnapshot)
    stats_hour: StatsSnapshot = msgspec.field(default_factory=StatsSnapshot)
    stats_minute: StatsSnapshot = msgspec.field(default_factory=StatsSnapshot)


class ConsumerOffsetsBody(Body, kw_only=True):
    """Answer of 43 and content of consumerOffset.json: queue offsets by ``topic@group`` and queue id."""

    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] | None = None
    lmq_offset_table: dict[str, Int64] | None = None
    offset_table: dict[str, dict[Int32, Int64]] = {}
    pull_offset_table: dict[str, dict[Int32, Int64]] | None = None


class DelayOffsets(Body, kw_only=True):
    """Answer of 45 and content of delayOffset.json: next queue offset by delay level."""

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = {}


class TimerMetric(Body, kw_only=True):
    """The count of a topic's messages that wait for their time, and when it last changed, in ms."""

    count: Int64 = 0
    time_stamp: Int64 = 0


class TimerMetrics(Body, kw_only=True):
    """Answer of 61 and content of timermetrics, by real topic."""

    data_version: DataVersion | None = None
    timing_count: dict[str, TimerMetric] = {}


class GroupForbidden(Body, kw_only=True):
    """Answer of 353."""

    group: str
    readable: bool
    topic: str
