"""Headers of tools' requests about offsets and statistics."""

from __future__ import annotations

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64


class ConsumeStatsHeader(Header, kw_only=True):
    """208 GET_CONSUME_STATS. ``topic_list`` is joined by semicolons."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class BrokerConsumeStatsHeader(Header, kw_only=True):
    """317 GET_BROKER_CONSUME_STATS."""

    is_order: bool = False


class CloneGroupOffsetHeader(Header, kw_only=True):
    """314 CLONE_GROUP_OFFSET."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class CorrectionOffsetHeader(Header, kw_only=True):
    """308 QUERY_CORRECTION_OFFSET."""

    filter_groups: str | None = None
    compare_group: str | None = None
    topic: str


class ViewStatsHeader(Header, kw_only=True):
    """315 VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class BrokerConfigAnswer(Header, kw_only=True):
    """Answer of 26 GET_BROKER_CONFIG. ``version`` is a DataVersion as JSON text."""

    version: str


class QueryConsumeQueueHeader(Header, kw_only=True):
    """321 QUERY_CONSUME_QUEUE. ``index`` is a queue offset."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None
