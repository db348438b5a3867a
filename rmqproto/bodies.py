"""Typed bodies: the JSON that requests and answers carry (the body classes of Apache RocketMQ 5.5.0).

Members stand in the order of their wire names, which is how fastjson writes a bean, so that ``fastjson.dumps`` of a
Struct reads like Apache's answer. None is left out in writing. Times are ms since the epoch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rmqproto.fastjson import ObjectMap
from rmqproto.java_numbers import Int32, Int64


class Body(msgspec.Struct, kw_only=True, rename="camel"):
    """Base of all bodies."""


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """A queue's full name; sorts as clients sort queues before they allocate them: topic, broker, queue id.

    The wire has the members in another order; ``fastjson`` does not care, and readers do not either.
    """

    topic: str
    broker_name: str
    queue_id: Int32


class DataVersion(Body, kw_only=True):
    """How often a table was changed, and when last. A table with another version is another table."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0


# --- name server -----------------------------------------------------------------------------------------------------


class BrokerData(Body, kw_only=True):
    """A broker name's addresses by broker id; 0 is the master."""

    broker_addrs: dict[Int64, str]
    broker_name: str
    cluster: str | None = None
    enable_acting_master: bool = False
    zone_name: str | None = None

    def selected_addr(self) -> str | None:
        """The master's address, else that of any replica."""
        return self.broker_addrs.get(0) or next(iter(self.broker_addrs.values()), None)


class QueueData(Body, kw_only=True):
    """A topic's queues on one broker. ``perm``: 4 read, 2 write, 1 inherit."""

    broker_name: str
    perm: Int32
    read_queue_nums: Int32
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32


class TopicRoute(Body, kw_only=True):
    """``TopicRouteData``: where a topic lives."""

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    topic_queue_mapping_by_broker: dict[str, Any] | None = None


class ClusterInfo(Body, kw_only=True):
    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(Body, kw_only=True):
    broker_addr: str | None = None
    topic_list: list[str] = []


class KvTable(Body, kw_only=True):
    table: dict[str, str] = {}


class BrokerMemberGroup(Body, kw_only=True):
    broker_addrs: dict[Int64, str]
    broker_name: str
    cluster: str


class BrokerMemberGroupAnswer(Body, kw_only=True):
    broker_member_group: BrokerMemberGroup


class TopicConfig(Body, kw_only=True):
    """A topic as the broker keeps it. ``attributes`` of names we do not know are kept."""

    attributes: dict[str, str] = {}
    order: bool = False
    perm: Int32 = 6
    read_queue_nums: Int32 = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16


class TopicConfigList(Body, kw_only=True):
    """Body of 18. Attributes have signs: ``+name`` and ``-name``."""

    topic_config_list: list[TopicConfig] = []


class TopicConfigs(Body, kw_only=True):
    """``TopicConfigAndMappingSerializeWrapper``: all topics of a broker; 4.x sends only the first two members."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] = {}
    topic_queue_mapping_detail_map: dict[str, Any] | None = None
    topic_queue_mapping_info_map: dict[str, Any] | None = None


class RegisterBrokerBody(Body, kw_only=True):
    filter_server_list: list[str] = []
    topic_config_serialize_wrapper: TopicConfigs = msgspec.field(default_factory=TopicConfigs)


# --- groups ----------------------------------------------------------------------------------------------------------


class GroupRetryPolicy(Body, kw_only=True):
    """How POP and the proxy space retries; the remoting push consumers do not look at it."""

    customized_retry_policy: dict[str, Any] | None = None
    exponential_retry_policy: dict[str, Any] | None = None
    type: str = "CUSTOMIZED"


class SubscriptionGroupConfig(Body, kw_only=True):
    """A consumer group as the broker keeps it; the defaults are those of a group created by a heartbeat."""

    attributes: dict[str, str] = {}
    broker_id: Int64 = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: Int32 = 15
    group_name: str
    group_retry_policy: GroupRetryPolicy = msgspec.field(default_factory=GroupRetryPolicy)
    group_sys_flag: Int32 = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int32 = 16
    retry_queue_nums: Int32 = 1
    subscription_data_set: list[dict[str, Any]] | None = None
    which_broker_when_consume_slowly: Int64 = 1


class GroupConfigList(Body, kw_only=True):
    """Body of 225. Attributes have signs: ``+name`` and ``-name``."""

    group_config_list: list[SubscriptionGroupConfig] = []


class SubscriptionGroups(Body, kw_only=True):
    """``SubscriptionGroupWrapper``: all groups of a broker. ``forbidden_table``: group, topic, bits."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int32]] = {}
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class SubscriptionData(Body, kw_only=True):
    """What a group wants of a topic. ``code_set`` comes as numbers, text or zeros, depending on the client: the
    hashes must be made from ``tags_set`` again, never taken from here."""

    class_filter_mode: bool = False
    code_set: list[Int32] | None = None
    expression_type: str | None = "TAG"
    sub_string: str = "*"
    sub_version: Int64 = 0
    tags_set: list[str] | None = None
    topic: str


class ConsumerData(Body, kw_only=True):
    """One consumer group in a heartbeat. The three enums come as names or, from C++ clients, as ordinals."""

    consume_from_where: str | Int32 = "CONSUME_FROM_LAST_OFFSET"
    consume_type: str | Int32 = "CONSUME_PASSIVELY"
    group_name: str
    message_model: str | Int32 = "CLUSTERING"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class ProducerData(Body, kw_only=True):
    group_name: str


class Heartbeat(Body, kw_only=True):
    """``HeartbeatData``: body of 34."""

    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: Int32 = 0
    producer_data_set: list[ProducerData] = []
    without_sub: bool = False


class ConsumerIds(Body, kw_only=True):
    consumer_id_list: list[str] = []


class LockRequest(Body, kw_only=True):
    """Body of 41 and 42."""

    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class LockAnswer(Body, kw_only=True):
    lock_ok_mq_set: list[MessageQueue] = msgspec.field(default_factory=list, name="lockOKMQSet")


class CheckClientRequest(Body, kw_only=True):
    """Body of 46."""

    client_id: str
    group: str
    namespace: str | None = None
    subscription_data: SubscriptionData


class Connection(Body, kw_only=True):
    """One online client."""

    client_addr: str
    client_id: str
    language: str | None = None
    version: Int32 = 0


class ConsumerConnection(Body, kw_only=True):
    connection_set: list[Connection] = []
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionData] = {}


class ProducerConnection(Body, kw_only=True):
    connection_set: list[Connection] = []


class ProducerInfo(Body, kw_only=True):
    client_id: str
    language: str | None = None
    last_update_timestamp: Int64 = 0
    remote_ip: str = msgspec.field(default="", name="remoteIP")
    version: Int32 = 0


class ProducerTable(Body, kw_only=True):
    """Producer groups to their clients: answer of 328."""

    data: dict[str, list[ProducerInfo]] = {}


# --- offsets and statistics ------------------------------------------------------------------------------------------


class TopicOffset(Body, kw_only=True):
    """One queue's ends; ``max_offset`` is the next to be written, ``last_update_timestamp`` 0 where it is empty."""

    last_update_timestamp: Int64 = 0
    max_offset: Int64 = 0
    min_offset: Int64 = 0


class TopicStats(Body, kw_only=True):
    """``TopicStatsTable``: answer of 202."""

    offset_table: ObjectMap[MessageQueue, TopicOffset] = msgspec.field(default_factory=ObjectMap)
    topic_put_tps: float = 0.0


class ConsumeOffset(Body, kw_only=True):
    """One queue of one group: broker, consumer and pull offsets are queue offsets."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0
    pull_offset: Int64 = 0


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
    """One queue in the answer of 303; times in ms, -1 where unknown."""

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
    """``ResetOffsetBody``: queue offsets by queue, to clients other than C++ and back from 222."""

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
    """One owned queue in a consumer's running info. ``droped`` is spelled so on the wire."""

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


class ConsumeStatus(Body, kw_only=True):
    """Rates of one topic in a consumer's running info; ``RT`` are ms."""

    consume_failed_msgs: Int64 = 0
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")


class ConsumerRunningInfo(Body, kw_only=True):
    """Answer of 307, made by the client."""

    jstack: str | None = None
    mq_pop_table: ObjectMap[MessageQueue, dict[str, Any]] = msgspec.field(default_factory=ObjectMap)
    mq_table: ObjectMap[MessageQueue, ProcessQueueInfo] = msgspec.field(default_factory=ObjectMap)
    properties: dict[str, str] = {}
    status_table: dict[str, ConsumeStatus] = {}
    subscription_set: list[SubscriptionData] = []
    user_consumer_info: dict[str, str] = {}


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


class BrokerStats(Body, kw_only=True):
    """``BrokerStatsData``: answer of 315."""

    stats_day: StatsSnapshot = msgspec.field(default_factory=StatsSnapshot)
    stats_hour: StatsSnapshot = msgspec.field(default_factory=StatsSnapshot)
    stats_minute: StatsSnapshot = msgspec.field(default_factory=StatsSnapshot)


class ConsumerOffsets(Body, kw_only=True):
    """Answer of 43 and content of consumerOffset.json: queue offsets by ``topic@group`` and queue id."""

    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] | None = None
    offset_table: dict[str, dict[Int32, Int64]] = {}
    pull_offset_table: dict[str, dict[Int32, Int64]] | None = None


class DelayOffsets(Body, kw_only=True):
    """Answer of 45 and content of delayOffset.json: next queue offset by delay level."""

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = {}


class GroupForbidden(Body, kw_only=True):
    """Answer of 353."""

    group: str
    readable: bool
    topic: str


# --- users and ACL ---------------------------------------------------------------------------------------------------


class UserInfo(Body, kw_only=True):
    """One of the answer of 3005. The password, which brokers send in clear, is passed over: nobody here wants it."""

    user_status: str | None = None
    user_type: str | None = None
    username: str


class AclEntry(Body, kw_only=True):
    """What is decided for some actions on one resource; ``source_ips`` None where it holds for all."""

    actions: list[str] = []
    decision: str | None = None
    resource: str | None = None
    source_ips: list[str] | None = None


class AclPolicy(Body, kw_only=True):
    entries: list[AclEntry] = []
    policy_type: str | None = None


class AclInfo(Body, kw_only=True):
    """One of the answer of 3010: the policies of a subject (``User:name``)."""

    policies: list[AclPolicy] = []
    subject: str
