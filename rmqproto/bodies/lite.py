"""Bodies about lite topics: the light queues below a parent topic, their subscribers and their lag. Offsets are queue
offsets, times ms since 1970."""

from __future__ import annotations

import msgspec

from rmqproto.bodies.base import Body
from rmqproto.bodies.statistics import ConsumeOffset, TopicOffset
from rmqproto.java.java_numbers import Int32, Int64


class BrokerLiteInfo(Body, kw_only=True):
    """Answer of 200074. ``topic_meta``: minutes after which lite topics expire, by parent topic; -1 for never.
    ``group_meta``: the groups that are bound to each parent topic."""

    cq_table_size: Int32 = 0
    current_lmq_num: Int32 = 0
    event_map_size: Int32 = 0
    group_meta: dict[str, list[str]] = {}
    lite_subscription_count: Int32 = 0
    max_lmq_num: Int32 = 0
    offset_table_size: Int32 = 0
    order_info_count: Int32 = 0
    store_type: str = "default"
    topic_meta: dict[str, Int32] = {}


class ParentTopicInfo(Body, kw_only=True):
    """Answer of 200075. ``lmq_num`` counts the light queues of the whole broker. ``groups`` is None if the topic has
    none."""

    groups: list[str] | None = None
    lite_topic_count: Int32 = 0
    lmq_num: Int32 = 0
    topic: str
    ttl: Int32 = -1


class ClientGroup(Body, kw_only=True):
    client_id: str
    group: str


class LiteTopicInfo(Body, kw_only=True):
    """Answer of 200076. ``sharding_to_broker``: the broker that keeps the lite topic."""

    lite_topic: str
    parent_topic: str
    sharding_to_broker: bool = False
    subscriber: list[ClientGroup] | None = None
    topic_offset: TopicOffset = msgspec.field(default_factory=TopicOffset)


class LiteClientInfo(Body, kw_only=True):
    """Answer of 200077. ``lite_topic_count`` is -1 for a client that subscribes to nothing."""

    client_id: str
    group: str
    last_access_time: Int64 = -1
    last_consume_time: Int64 = 0
    lite_topic_count: Int32 = -1
    lite_topic_set: list[str] | None = None
    parent_topic: str


class LiteLag(Body, kw_only=True):
    """``LiteLagInfo``: a group's lag in one lite topic."""

    earliest_unconsumed_timestamp: Int64 = -1
    lag_count: Int64 = 0
    lite_topic: str


class LiteGroupInfo(Body, kw_only=True):
    """Answer of 200078: one lite topic if the request names one, else those with the most lag."""

    earliest_unconsumed_timestamp: Int64 = -1
    group: str
    lag_count_top_k: list[LiteLag] | None = None
    lag_timestamp_top_k: list[LiteLag] | None = None
    lite_topic: str | None = None
    lite_topic_offset_wrapper: ConsumeOffset | None = None
    parent_topic: str | None = None
    total_lag_count: Int64 = 0


class OffsetOption(Body, kw_only=True):
    """Where a subscription begins. ``type``: POLICY (``value`` 0 the group's offset, 1 the first message, 2 the end),
    OFFSET, TAIL_N, TIMESTAMP."""

    type: str = "POLICY"
    value: Int64 = 0

    @classmethod
    def first(cls) -> OffsetOption:
        return cls(value=1)

    @classmethod
    def end(cls) -> OffsetOption:
        return cls(value=2)

    @classmethod
    def at(cls, queue_offset: int) -> OffsetOption:
        """Begins at a queue offset of the lite topic."""
        return cls(type="OFFSET", value=queue_offset)

    @classmethod
    def tail(cls, count: int) -> OffsetOption:
        """Begins with the last ``count`` messages. Apache's brokers count from the group's offset."""
        return cls(type="TAIL_N", value=count)

    @classmethod
    def since(cls, timestamp_ms: int) -> OffsetOption:
        """Begins with the first message stored at or after a time, in ms since 1970. Apache's brokers ignore it."""
        return cls(type="TIMESTAMP", value=timestamp_ms)


class LiteSubscriptionChange(Body, kw_only=True):
    """``LiteSubscriptionDTO``. ``action``: PARTIAL_ADD, PARTIAL_REMOVE, COMPLETE_ADD, COMPLETE_REMOVE."""

    action: str
    client_id: str | None = None
    group: str | None = None
    lite_topic_set: list[str] | None = None
    offset_option: OffsetOption | None = None
    topic: str | None = None
    version: Int64 = 0


class LiteSubscriptionCtl(Body, kw_only=True):
    """Body of 200071."""

    subscription_set: list[LiteSubscriptionChange] | None = None
