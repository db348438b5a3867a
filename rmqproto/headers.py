"""Typed headers: what the ext fields of each request and answer mean (the ``*RequestHeader`` and ``*ResponseHeader``
classes of Apache RocketMQ 5.5.0), and the one table that says which request code carries which.

A field without a default must be there. Names are ours (snake case); the wire's are their camel case unless said.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from rmqproto.codes import RequestCode as R
from rmqproto.errors import ProtocolError
from rmqproto.java_numbers import Int32, Int64


class Header(msgspec.Struct, kw_only=True, gc=False, rename="camel"):
    """Base of all typed headers."""


class NoFields(Header, kw_only=True):
    """For requests without ext fields of their own."""


H = TypeVar("H", bound=Header)


def to_ext(header: Header) -> dict[str, str]:
    """The header as ext fields: every value as text, None left out."""
    cls = header.__class__
    ext: dict[str, str] = {}
    for name, field in zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True):
        value = getattr(header, field)
        if value is not None:
            ext[name] = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return ext


def from_ext(ext: dict[str, str], type: type[H]) -> H:
    """Ext fields as a typed header; unknown ones are passed over, empty ones count as absent.

    ProtocolError that names the field where one is missing or no number. Text that is no boolean is false, as in Java.
    """
    try:
        return msgspec.convert(ext, type, strict=False)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_forgiving(ext, type), type, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"header: {error}") from None


def _forgiving(ext: dict[str, str], type: type[Header]) -> dict[str, Any]:
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(type)}
    found: dict[str, Any] = {}
    for name, value in ext.items():
        if value == "":
            continue
        kind = kinds.get(name)
        found[name] = value.strip().lower() == "true" if kind in (bool, bool | None) else value
    return found


# --- sending ---------------------------------------------------------------------------------------------------------


class SendHeader(Header, kw_only=True):
    """10 SEND_MESSAGE. ``batch`` decides the batch path, the request code does not."""

    producer_group: str = ""
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 = 0
    queue_id: Int32
    sys_flag: Int32 = 0
    born_timestamp: Int64
    flag: Int32 = 0
    properties: str = ""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    broker_name: str | None = msgspec.field(default=None, name="bname")


class SendHeaderV2(SendHeader, kw_only=True):
    """310 SEND_MESSAGE_V2 and 320 SEND_BATCH_MESSAGE: the same fields, one letter each on the wire."""

    producer_group: str = msgspec.field(default="", name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(default="", name="c")
    default_topic_queue_nums: Int32 = msgspec.field(default=0, name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(default=0, name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(default=0, name="h")
    properties: str = msgspec.field(default="", name="i")
    reconsume_times: Int32 = msgspec.field(default=0, name="j")
    unit_mode: bool = msgspec.field(default=False, name="k")
    max_reconsume_times: Int32 | None = msgspec.field(default=None, name="l")
    batch: bool = msgspec.field(default=False, name="m")
    broker_name: str | None = msgspec.field(default=None, name="n")


class SendAnswer(Header, kw_only=True):
    """``message_id`` is the offset id (comma-joined for a batch), ``queue_offset`` the first message's."""

    message_id: str = msgspec.field(name="msgId")
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    msg_region: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: str | None = msgspec.field(default=None, name="TRACE_ON")


class SendBackHeader(Header, kw_only=True):
    """36 CONSUMER_SEND_MSG_BACK. ``offset`` is the commit log offset."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


# --- consuming -------------------------------------------------------------------------------------------------------

PULL_COMMIT_OFFSET = 1
PULL_SUSPEND = 2
PULL_SUBSCRIPTION = 4
PULL_CLASS_FILTER = 8
PULL_LITE = 16


class PullHeader(Header, kw_only=True):
    """11 PULL_MESSAGE, 361 LITE_PULL_MESSAGE. ``sys_flag`` holds the PULL_* bits, ``queue_offset`` the next wanted."""

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


class PullAnswer(Header, kw_only=True):
    """Needed by clients on every 0, 19, 20 and 21. Offsets are queue offsets."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryConsumerOffsetHeader(Header, kw_only=True):
    """14 QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetHeader(Header, kw_only=True):
    """15 UPDATE_CONSUMER_OFFSET. None stands for a field that was not sent, which the broker refuses in words."""

    consumer_group: str | None = None
    topic: str | None = None
    queue_id: Int32 | None = None
    commit_offset: Int64 | None = None


class QueueHeader(Header, kw_only=True):
    """31 GET_MIN_OFFSET, 32 GET_EARLIEST_MSG_STORETIME, and what 30 has beside."""

    topic: str
    queue_id: Int32


class MaxOffsetHeader(QueueHeader, kw_only=True):
    """30 GET_MAX_OFFSET. Not ``committed`` asks for the end with what consumers cannot see yet."""

    committed: bool = True


class SearchOffsetHeader(Header, kw_only=True):
    """29 SEARCH_OFFSET_BY_TIMESTAMP. ``boundary_type`` is LOWER (the default) or UPPER."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class OffsetAnswer(Header, kw_only=True):
    """A queue offset, or -1000 where clients should see that none came."""

    offset: Int64


class TimestampAnswer(Header, kw_only=True):
    timestamp: Int64


class QueryMessageHeader(Header, kw_only=True):
    """12 QUERY_MESSAGE. ``index_type`` is K (the default), U or T; times in ms. ``last_key``: for a RocksDB index."""

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

    client_id: str = msgspec.field(name="clientID")
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


# --- the broker asks its clients -------------------------------------------------------------------------------------


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


class ResetOffsetHeader(Header, kw_only=True):
    """222 INVOKE_BROKER_TO_RESET_OFFSET, 220 RESET_CONSUMER_CLIENT_OFFSET. A negative timestamp means the end."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None


# --- topics and groups -----------------------------------------------------------------------------------------------


class TopicConfigHeader(Header, kw_only=True):
    """17 UPDATE_AND_CREATE_TOPIC. ``attributes``: ``+name=value`` and ``-name``, separated by commas."""

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


class TopicHeader(Header, kw_only=True):
    """105 at its shortest, 202, 215, 300, 351: a topic."""

    topic: str


class AllTopicsHeader(Header, kw_only=True):
    """21 GET_ALL_TOPIC_CONFIG, paged where ``topic_seq`` is given."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class AllTopicsAnswer(Header, kw_only=True):
    """``total_topic_num`` is None from brokers up to 5.3.3, which send everything at once."""

    total_topic_num: Int32 | None = None


class AllGroupsHeader(Header, kw_only=True):
    """201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG, paged where ``group_seq`` is given."""

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


# --- offsets and statistics, for tools -------------------------------------------------------------------------------


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
    compare_group: str
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


# --- name server -----------------------------------------------------------------------------------------------------


class RouteHeader(Header, kw_only=True):
    """105 GET_ROUTEINFO_BY_TOPIC."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerHeader(Header, kw_only=True):
    """103 REGISTER_BROKER. ``body_crc32`` 0 or absent: not checked."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    zone_name: str | None = msgspec.field(default=None, name="__ZONE_NAME")


class RegisterBrokerAnswer(Header, kw_only=True):
    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerIdentityHeader(Header, kw_only=True):
    """104 UNREGISTER_BROKER, 322 QUERY_DATA_VERSION."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class DataVersionAnswer(Header, kw_only=True):
    """Whether the broker has to register again."""

    changed: bool


class BrokerHeartbeatHeader(Header, kw_only=True):
    """904 BROKER_HEARTBEAT."""

    cluster_name: str
    broker_addr: str
    broker_name: str


class MemberGroupHeader(Header, kw_only=True):
    """901 GET_BROKER_MEMBER_GROUP."""

    cluster_name: str
    broker_name: str


class DeleteTopicHeader(Header, kw_only=True):
    """216 DELETE_TOPIC_IN_NAMESRV: for all brokers, or those of one cluster."""

    topic: str
    cluster_name: str | None = None


class BrokerNameHeader(Header, kw_only=True):
    """205 WIPE_WRITE_PERM_OF_BROKER, 327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermAnswer(Header, kw_only=True):
    """How many topics 205 found."""

    wipe_topic_count: Int32


class AddWritePermAnswer(Header, kw_only=True):
    """How many topics 327 found."""

    add_topic_count: Int32


class ClusterHeader(Header, kw_only=True):
    """224 GET_TOPICS_BY_CLUSTER."""

    cluster: str


class PutKvHeader(Header, kw_only=True):
    """100 PUT_KV_CONFIG; what is missing is refused in words."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class KvHeader(Header, kw_only=True):
    """101 GET_KV_CONFIG, 102 DELETE_KV_CONFIG."""

    namespace: str
    key: str


class KvValueAnswer(Header, kw_only=True):
    value: str


class NamespaceHeader(Header, kw_only=True):
    """219 GET_KVLIST_BY_NAMESPACE."""

    namespace: str


REQUEST_HEADERS: dict[int, type[Header]] = {
    R.SEND_MESSAGE: SendHeader,
    R.SEND_MESSAGE_V2: SendHeaderV2,
    R.SEND_BATCH_MESSAGE: SendHeaderV2,
    R.CONSUMER_SEND_MSG_BACK: SendBackHeader,
    R.PULL_MESSAGE: PullHeader,
    R.LITE_PULL_MESSAGE: PullHeader,
    R.QUERY_MESSAGE: QueryMessageHeader,
    R.QUERY_CONSUMER_OFFSET: QueryConsumerOffsetHeader,
    R.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetHeader,
    R.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetHeader,
    R.GET_MAX_OFFSET: MaxOffsetHeader,
    R.GET_MIN_OFFSET: QueueHeader,
    R.GET_EARLIEST_MSG_STORETIME: QueueHeader,
    R.VIEW_MESSAGE_BY_ID: ViewMessageHeader,
    R.UNREGISTER_CLIENT: UnregisterClientHeader,
    R.GET_CONSUMER_LIST_BY_GROUP: ConsumerGroupHeader,
    R.NOTIFY_CONSUMER_IDS_CHANGED: ConsumerGroupHeader,
    R.GET_CONSUMER_CONNECTION_LIST: ConsumerGroupHeader,
    R.GET_PRODUCER_CONNECTION_LIST: ProducerGroupHeader,
    R.GET_CONSUMER_RUNNING_INFO: RunningInfoHeader,
    R.CONSUME_MESSAGE_DIRECTLY: ConsumeDirectlyHeader,
    R.GET_CONSUMER_STATUS_FROM_CLIENT: TopicGroupHeader,
    R.QUERY_CONSUME_TIME_SPAN: TopicGroupHeader,
    R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ConsumerStatusHeader,
    R.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetHeader,
    R.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsetHeader,
    R.UPDATE_AND_CREATE_TOPIC: TopicConfigHeader,
    R.GET_ALL_TOPIC_CONFIG: AllTopicsHeader,
    R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: AllGroupsHeader,
    R.GET_TOPIC_CONFIG: TopicHeader,
    R.GET_TOPIC_STATS_INFO: TopicHeader,
    R.DELETE_TOPIC_IN_BROKER: TopicHeader,
    R.QUERY_TOPIC_CONSUME_BY_WHO: TopicHeader,
    R.DELETE_SUBSCRIPTIONGROUP: DeleteGroupHeader,
    R.GET_SUBSCRIPTIONGROUP_CONFIG: GroupHeader,
    R.QUERY_TOPICS_BY_CONSUMER: GroupHeader,
    R.QUERY_SUBSCRIPTION_BY_CONSUMER: SubscriptionQueryHeader,
    R.UPDATE_AND_GET_GROUP_FORBIDDEN: GroupForbiddenHeader,
    R.GET_CONSUME_STATS: ConsumeStatsHeader,
    R.GET_BROKER_CONSUME_STATS: BrokerConsumeStatsHeader,
    R.CLONE_GROUP_OFFSET: CloneGroupOffsetHeader,
    R.QUERY_CORRECTION_OFFSET: CorrectionOffsetHeader,
    R.VIEW_BROKER_STATS_DATA: ViewStatsHeader,
    R.QUERY_CONSUME_QUEUE: QueryConsumeQueueHeader,
    R.GET_ROUTEINFO_BY_TOPIC: RouteHeader,
    R.REGISTER_BROKER: RegisterBrokerHeader,
    R.UNREGISTER_BROKER: BrokerIdentityHeader,
    R.QUERY_DATA_VERSION: BrokerIdentityHeader,
    R.BROKER_HEARTBEAT: BrokerHeartbeatHeader,
    R.GET_BROKER_MEMBER_GROUP: MemberGroupHeader,
    R.DELETE_TOPIC_IN_NAMESRV: DeleteTopicHeader,
    R.REGISTER_TOPIC_IN_NAMESRV: TopicHeader,
    R.WIPE_WRITE_PERM_OF_BROKER: BrokerNameHeader,
    R.ADD_WRITE_PERM_OF_BROKER: BrokerNameHeader,
    R.GET_TOPICS_BY_CLUSTER: ClusterHeader,
    R.PUT_KV_CONFIG: PutKvHeader,
    R.GET_KV_CONFIG: KvHeader,
    R.DELETE_KV_CONFIG: KvHeader,
    R.GET_KVLIST_BY_NAMESPACE: NamespaceHeader,
}
"""Request code to its header; codes that are not here have no ext fields of their own (``NoFields``)."""
