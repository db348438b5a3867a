"""Headers of tools' requests about topics and consumer groups, offsets and statistics, users and policies."""

from __future__ import annotations

import msgspec

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64


class TopicConfigHeader(Header, kw_only=True):
    """17 UPDATE_AND_CREATE_TOPIC, 513 UPDATE_AND_CREATE_STATIC_TOPIC.

    ``attributes``: ``+name=value`` and ``-name``, separated by commas."""

    topic: str
    default_topic: str = ""
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class SwitchTimerEngineHeader(Header, kw_only=True):
    """5001: ``F`` for files, ``R`` for RocksDB."""

    engine_type: str | None = msgspec.field(default=None, name="E_T")


class ExportConfigHeader(Header, kw_only=True):
    """355: ``topics``, ``subscriptionGroups``, ``consumerOffsets``, separated by ``;``."""

    config_type: str


class CheckQueuesHeader(Header, kw_only=True):
    """354: a topic, or an empty text for all; ``check_store_time`` in ms since the epoch."""

    topic: str | None = None
    check_store_time: Int64 | None = None


class ReadModeHeader(Header, kw_only=True):
    """2004: 0 (MADV_NORMAL) or 1 (MADV_RANDOM), as text."""

    mode: str | None = msgspec.field(default=None, name="READ_AHEAD_MODE")


class TopicHeader(Header, kw_only=True):
    """105 at its shortest, 202, 215, 300, 351: a topic. With ``logical``, 351 also returns a static topic's mapping."""

    topic: str
    logical: bool | None = msgspec.field(default=None, name="lo")


class AllTopicsHeader(Header, kw_only=True):
    """21 GET_ALL_TOPIC_CONFIG, paged if ``topic_seq`` is given."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class AllTopicsAnswer(Header, kw_only=True):
    """``total_topic_num`` is None from brokers up to 5.3.3, which send everything at once."""

    total_topic_num: Int32 | None = None


class AllGroupsHeader(Header, kw_only=True):
    """201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG, paged if ``group_seq`` is given."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class AllGroupsAnswer(Header, kw_only=True):
    total_group_num: Int32 | None = None


class GroupHeader(Header, kw_only=True):
    """343 QUERY_TOPICS_BY_CONSUMER, 352 GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str


class DeleteGroupHeader(Header, kw_only=True):
    """207 DELETE_SUBSCRIPTIONGROUP."""

    group_name: str
    clean_offset: bool = False


class GroupForbiddenHeader(Header, kw_only=True):
    """353 UPDATE_AND_GET_GROUP_FORBIDDEN."""

    group: str
    topic: str
    readable: bool | None = None


class SubscriptionQueryHeader(Header, kw_only=True):
    """345 QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str
    topic: str | None = None


# --- offsets and statistics ------------------------------------------------------------------------------------------


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


# --- users and policies ----------------------------------------------------------------------------------------------


class UserHeader(Header, kw_only=True):
    """3001 AUTH_CREATE_USER, 3002 AUTH_UPDATE_USER, 3003 AUTH_DELETE_USER, 3004 AUTH_GET_USER. ``access_key`` is the
    requesting user, for the broker; a client's signature adds it."""

    username: str = ""
    access_key: str | None = msgspec.field(default=None, name="AccessKey")


class ListUsersHeader(Header, kw_only=True):
    """3005 AUTH_LIST_USER. ``filter``: part of the name."""

    filter: str | None = None


class SubjectHeader(Header, kw_only=True):
    """3006 AUTH_CREATE_ACL, 3007 AUTH_UPDATE_ACL, 3009 AUTH_GET_ACL. ``subject``: ``User:name``."""

    subject: str = ""


class DeleteAclHeader(Header, kw_only=True):
    """3008 AUTH_DELETE_ACL. Without ``resource``, all of the subject's policies."""

    subject: str = ""
    policy_type: str | None = None
    resource: str | None = None


class ListAclsHeader(Header, kw_only=True):
    """3010 AUTH_LIST_ACL. The filters are parts of the subject and of the resource."""

    subject_filter: str | None = None
    resource_filter: str | None = None
