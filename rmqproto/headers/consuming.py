"""Headers of pulls, offsets, look-ups and group membership, of a broker's requests to its clients, and of the requests
that cause those."""

from __future__ import annotations

import msgspec

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64

PULL_COMMIT_OFFSET = 1
PULL_SUSPEND = 2
PULL_SUBSCRIPTION = 4
PULL_CLASS_FILTER = 8
PULL_LITE = 16

PULL_BATCH_COUNT = 32
"""Messages asked for at once: the default of Apache's client, and the most that a broker returns from memory."""


class PullHeader(Header, kw_only=True):
    """11 PULL_MESSAGE, 361 LITE_PULL_MESSAGE. ``sys_flag`` holds the PULL_* bits; ``queue_offset`` is the next one
    wanted. ``lite_topic`` names a lite topic below ``topic`` to pull from."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64 = 0
    suspend_timeout_millis: Int64 = 0
    subscription: str | None = None
    sub_version: Int64 = 0
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    lite_topic: str | None = None


class PullAnswer(Header, kw_only=True):
    """Clients need it in every answer with code 0, 19, 20 or 21. Offsets are queue offsets."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
    offset_delta: Int64 | None = None
    """For a static topic: the number that a client adds to the offsets in the records."""


class QueryConsumerOffsetHeader(Header, kw_only=True):
    """14 QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetHeader(Header, kw_only=True):
    """15 UPDATE_CONSUMER_OFFSET. None stands for a field that was not sent; the broker refuses it with a message."""

    consumer_group: str | None = None
    topic: str | None = None
    queue_id: Int32 | None = None
    commit_offset: Int64 | None = None


class QueueHeader(Header, kw_only=True):
    """31 GET_MIN_OFFSET, 32 GET_EARLIEST_MSG_STORETIME, and the base of 30."""

    topic: str
    queue_id: Int32


class MaxOffsetHeader(QueueHeader, kw_only=True):
    """30 GET_MAX_OFFSET. ``committed`` false asks for the end including messages that consumers cannot see yet. It is
    kept as text, which costs the hot path nothing: ``is_committed`` reads it as Java does."""

    committed: str = "true"

    @property
    def is_committed(self) -> bool:
        return self.committed == "true" or self.committed.lower() == "true"


class SearchOffsetHeader(Header, kw_only=True):
    """29 SEARCH_OFFSET_BY_TIMESTAMP. ``boundary_type`` is LOWER (the default) or UPPER. ``lite_topic`` names a lite
    topic below ``topic`` whose queue is searched."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    lite_topic: str | None = None


class OffsetAnswer(Header, kw_only=True):
    """A queue offset. Clients read -1000 as a missing answer."""

    offset: Int64


class TimestampAnswer(Header, kw_only=True):
    timestamp: Int64


class QueryMessageHeader(Header, kw_only=True):
    """12 QUERY_MESSAGE. ``index_type`` is K (the default), U or T; times in ms. ``last_key`` is for a RocksDB index."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None
    last_key: str | None = None
    unique_key_query: bool | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageAnswer(Header, kw_only=True):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageHeader(Header, kw_only=True):
    """33 VIEW_MESSAGE_BY_ID. ``offset`` is the commit log offset."""

    topic: str | None = None
    offset: Int64


class UnregisterClientHeader(Header, kw_only=True):
    """35 UNREGISTER_CLIENT."""

    client_id: str | None = msgspec.field(default=None, name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class HeartbeatAnswer(Header, kw_only=True):
    is_support_heart_beat_v2: bool = msgspec.field(default=True, name="IS_SUPPORT_HEART_BEAT_V2")
    is_sub_change: bool = msgspec.field(default=True, name="IS_SUB_CHANGE")


class ConsumerGroupHeader(Header, kw_only=True):
    """38 GET_CONSUMER_LIST_BY_GROUP, 40 NOTIFY_CONSUMER_IDS_CHANGED, 203 GET_CONSUMER_CONNECTION_LIST."""

    consumer_group: str


class ProducerGroupHeader(Header, kw_only=True):
    """204 GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


# --- a broker's requests to its clients ------------------------------------------------------------------------------


class RunningInfoHeader(Header, kw_only=True):
    """307 GET_CONSUMER_RUNNING_INFO."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyHeader(Header, kw_only=True):
    """309 CONSUME_MESSAGE_DIRECTLY. ``msg_id`` is the offset id; ``client_id`` must be online."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class TopicGroupHeader(Header, kw_only=True):
    """221 GET_CONSUMER_STATUS_FROM_CLIENT, 303 QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class ConsumerStatusHeader(TopicGroupHeader, kw_only=True):
    """223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS. ``client_addr`` is a client id."""

    client_addr: str | None = None


class PushReplyHeader(Header, kw_only=True):
    """326 PUSH_REPLY_MESSAGE_TO_CLIENT. Hosts are ``ip:port``; the body is the reply's, compressed if ``sys_flag``
    says so."""

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 = 0
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64


class ResetOffsetHeader(Header, kw_only=True):
    """222 INVOKE_BROKER_TO_RESET_OFFSET, 220 RESET_CONSUMER_CLIENT_OFFSET. A negative timestamp means the end."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None
