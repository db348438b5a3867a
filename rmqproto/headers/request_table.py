"""What the protocol knows of each request: code, kind and header. A server adds what it needs and who passes it on
(``rmqserver/request_rules.py``)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqproto import headers
from rmqproto.codes import OwnRequestCode as O
from rmqproto.codes import RequestCode as R

if TYPE_CHECKING:
    from rmqproto.headers.base import Header

    REQUEST_HEADERS: dict[int, type[Header]]
    """The header of each request code. Other codes have no ext fields of their own (``NoFields``)."""


class RequestKind(enum.Enum):
    READ = "read"
    """Changes nothing: a client that only reads may send it."""
    PUT = "put"
    """Brings a message in, or lets it go on."""
    CONSUME = "consume"
    """What clients of a group say, and what they are told."""
    ADMINISTER = "administer"
    """What operators and servers do."""


READ, PUT, CONSUME, ADMINISTER = RequestKind


class _Row(NamedTuple):
    kind: RequestKind
    header: str = ""
    """File below ``rmqproto/headers`` and class, which are loaded late: a command needs few of them."""


REQUESTS: dict[int, _Row] = {
    R.SEND_MESSAGE: _Row(PUT, "sending.SendHeader"),
    R.PULL_MESSAGE: _Row(READ, "consuming.PullHeader"),
    R.QUERY_MESSAGE: _Row(READ, "consuming.QueryMessageHeader"),
    R.QUERY_CONSUMER_OFFSET: _Row(READ, "consuming.QueryConsumerOffsetHeader"),
    R.UPDATE_CONSUMER_OFFSET: _Row(CONSUME, "consuming.UpdateConsumerOffsetHeader"),
    R.UPDATE_AND_CREATE_TOPIC: _Row(ADMINISTER, "tables.TopicConfigHeader"),
    R.UPDATE_AND_CREATE_TOPIC_LIST: _Row(ADMINISTER),
    R.GET_ALL_TOPIC_CONFIG: _Row(READ, "tables.AllTopicsHeader"),
    R.UPDATE_BROKER_CONFIG: _Row(ADMINISTER),
    R.GET_BROKER_CONFIG: _Row(READ),
    R.GET_BROKER_RUNTIME_INFO: _Row(READ),
    R.SEARCH_OFFSET_BY_TIMESTAMP: _Row(READ, "consuming.SearchOffsetHeader"),
    R.GET_MAX_OFFSET: _Row(READ, "consuming.MaxOffsetHeader"),
    R.GET_MIN_OFFSET: _Row(READ, "consuming.QueueHeader"),
    R.GET_EARLIEST_MSG_STORETIME: _Row(READ, "consuming.QueueHeader"),
    R.VIEW_MESSAGE_BY_ID: _Row(READ, "consuming.ViewMessageHeader"),
    R.HEART_BEAT: _Row(CONSUME),
    R.UNREGISTER_CLIENT: _Row(CONSUME, "consuming.UnregisterClientHeader"),
    R.CONSUMER_SEND_MSG_BACK: _Row(PUT, "sending.SendBackHeader"),
    R.END_TRANSACTION: _Row(PUT, "sending.EndTransactionHeader"),
    R.GET_CONSUMER_LIST_BY_GROUP: _Row(READ, "consuming.ConsumerGroupHeader"),
    R.CHECK_TRANSACTION_STATE: _Row(CONSUME, "sending.CheckTransactionHeader"),
    R.NOTIFY_CONSUMER_IDS_CHANGED: _Row(CONSUME, "consuming.ConsumerGroupHeader"),
    R.LOCK_BATCH_MQ: _Row(CONSUME),
    R.UNLOCK_BATCH_MQ: _Row(CONSUME),
    R.GET_ALL_CONSUMER_OFFSET: _Row(READ),
    R.GET_ALL_DELAY_OFFSET: _Row(READ),
    R.CHECK_CLIENT_CONFIG: _Row(READ),
    R.GET_TIMER_CHECK_POINT: _Row(READ),
    R.GET_TIMER_METRICS: _Row(READ),
    R.PUT_KV_CONFIG: _Row(ADMINISTER, "nameserver.PutKvHeader"),
    R.GET_KV_CONFIG: _Row(READ, "nameserver.KvHeader"),
    R.DELETE_KV_CONFIG: _Row(ADMINISTER, "nameserver.KvHeader"),
    R.REGISTER_BROKER: _Row(ADMINISTER, "nameserver.RegisterBrokerHeader"),
    R.UNREGISTER_BROKER: _Row(ADMINISTER, "nameserver.BrokerIdentityHeader"),
    R.GET_ROUTEINFO_BY_TOPIC: _Row(READ, "nameserver.RouteHeader"),
    R.GET_BROKER_CLUSTER_INFO: _Row(READ),
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _Row(ADMINISTER),
    R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _Row(READ, "tables.AllGroupsHeader"),
    R.GET_TOPIC_STATS_INFO: _Row(READ, "tables.TopicHeader"),
    R.GET_CONSUMER_CONNECTION_LIST: _Row(READ, "consuming.ConsumerGroupHeader"),
    R.GET_PRODUCER_CONNECTION_LIST: _Row(READ, "consuming.ProducerGroupHeader"),
    R.WIPE_WRITE_PERM_OF_BROKER: _Row(ADMINISTER, "nameserver.BrokerNameHeader"),
    R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _Row(READ),
    R.DELETE_SUBSCRIPTIONGROUP: _Row(ADMINISTER, "tables.DeleteGroupHeader"),
    R.GET_CONSUME_STATS: _Row(READ, "tables.ConsumeStatsHeader"),
    R.DELETE_TOPIC_IN_BROKER: _Row(ADMINISTER, "tables.TopicHeader"),
    R.DELETE_TOPIC_IN_NAMESRV: _Row(ADMINISTER, "nameserver.DeleteTopicHeader"),
    R.REGISTER_TOPIC_IN_NAMESRV: _Row(ADMINISTER, "tables.TopicHeader"),
    R.GET_KVLIST_BY_NAMESPACE: _Row(READ, "nameserver.NamespaceHeader"),
    R.RESET_CONSUMER_CLIENT_OFFSET: _Row(CONSUME, "consuming.ResetOffsetHeader"),
    R.GET_CONSUMER_STATUS_FROM_CLIENT: _Row(CONSUME, "consuming.TopicGroupHeader"),
    R.INVOKE_BROKER_TO_RESET_OFFSET: _Row(ADMINISTER, "consuming.ResetOffsetHeader"),
    R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _Row(READ, "consuming.ConsumerStatusHeader"),
    R.GET_TOPICS_BY_CLUSTER: _Row(READ, "nameserver.ClusterHeader"),
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _Row(ADMINISTER),
    R.QUERY_TOPIC_CONSUME_BY_WHO: _Row(READ, "tables.TopicHeader"),
    R.QUERY_CONSUME_TIME_SPAN: _Row(READ, "consuming.TopicGroupHeader"),
    R.GET_SYSTEM_TOPIC_LIST_FROM_NS: _Row(READ),
    R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _Row(READ),
    R.CLEAN_EXPIRED_CONSUMEQUEUE: _Row(ADMINISTER),
    R.GET_CONSUMER_RUNNING_INFO: _Row(READ, "consuming.RunningInfoHeader"),
    R.QUERY_CORRECTION_OFFSET: _Row(READ, "tables.CorrectionOffsetHeader"),
    R.CONSUME_MESSAGE_DIRECTLY: _Row(ADMINISTER, "consuming.ConsumeDirectlyHeader"),
    R.SEND_MESSAGE_V2: _Row(PUT, "sending.SendHeaderV2"),
    R.GET_UNIT_TOPIC_LIST: _Row(READ),
    R.GET_HAS_UNIT_SUB_TOPIC_LIST: _Row(READ),
    R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _Row(READ),
    R.CLONE_GROUP_OFFSET: _Row(ADMINISTER, "tables.CloneGroupOffsetHeader"),
    R.VIEW_BROKER_STATS_DATA: _Row(READ, "tables.ViewStatsHeader"),
    R.CLEAN_UNUSED_TOPIC: _Row(ADMINISTER),
    R.GET_BROKER_CONSUME_STATS: _Row(READ, "tables.BrokerConsumeStatsHeader"),
    R.UPDATE_NAMESRV_CONFIG: _Row(ADMINISTER),
    R.GET_NAMESRV_CONFIG: _Row(READ),
    R.SEND_BATCH_MESSAGE: _Row(PUT, "sending.SendHeaderV2"),
    R.QUERY_CONSUME_QUEUE: _Row(READ, "tables.QueryConsumeQueueHeader"),
    R.QUERY_DATA_VERSION: _Row(ADMINISTER, "nameserver.BrokerIdentityHeader"),
    R.RESUME_CHECK_HALF_MESSAGE: _Row(ADMINISTER, "sending.ResumeCheckHeader"),
    R.SEND_REPLY_MESSAGE: _Row(PUT, "sending.SendHeader"),
    R.SEND_REPLY_MESSAGE_V2: _Row(PUT, "sending.SendHeaderV2"),
    R.PUSH_REPLY_MESSAGE_TO_CLIENT: _Row(CONSUME),
    R.ADD_WRITE_PERM_OF_BROKER: _Row(ADMINISTER, "nameserver.BrokerNameHeader"),
    R.GET_ALL_PRODUCER_INFO: _Row(READ),
    R.DELETE_EXPIRED_COMMITLOG: _Row(ADMINISTER),
    R.QUERY_TOPICS_BY_CONSUMER: _Row(READ, "tables.GroupHeader"),
    R.QUERY_SUBSCRIPTION_BY_CONSUMER: _Row(READ, "tables.SubscriptionQueryHeader"),
    R.GET_TOPIC_CONFIG: _Row(READ, "tables.TopicHeader"),
    # Not a question: a broker that makes groups by itself makes the one that it is asked for.
    R.GET_SUBSCRIPTIONGROUP_CONFIG: _Row(ADMINISTER, "tables.GroupHeader"),
    R.UPDATE_AND_GET_GROUP_FORBIDDEN: _Row(ADMINISTER, "tables.GroupForbiddenHeader"),
    R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _Row(READ, "tables.CheckQueuesHeader"),
    R.EXPORT_ROCKSDB_CONFIG_TO_JSON: _Row(ADMINISTER, "tables.ExportConfigHeader"),
    R.LITE_PULL_MESSAGE: _Row(READ, "consuming.PullHeader"),
    R.RECALL_MESSAGE: _Row(PUT, "sending.RecallHeader"),
    R.QUERY_ASSIGNMENT: _Row(CONSUME),
    R.SET_MESSAGE_REQUEST_MODE: _Row(ADMINISTER),
    R.GET_ALL_MESSAGE_REQUEST_MODE: _Row(READ),
    R.UPDATE_AND_CREATE_STATIC_TOPIC: _Row(ADMINISTER, "tables.TopicConfigHeader"),
    R.GET_BROKER_MEMBER_GROUP: _Row(READ, "nameserver.MemberGroupHeader"),
    R.ADD_BROKER: _Row(ADMINISTER, "controller.AddBrokerHeader"),
    R.REMOVE_BROKER: _Row(ADMINISTER, "controller.RemoveBrokerHeader"),
    R.BROKER_HEARTBEAT: _Row(ADMINISTER, "nameserver.BrokerHeartbeatHeader"),
    R.NOTIFY_MIN_BROKER_ID_CHANGE: _Row(ADMINISTER, "nameserver.MinBrokerIdHeader"),
    R.EXCHANGE_BROKER_HA_INFO: _Row(ADMINISTER, "controller.HaInfoHeader"),
    R.GET_BROKER_HA_STATUS: _Row(READ),
    R.RESET_MASTER_FLUSH_OFFSET: _Row(ADMINISTER, "controller.MasterFlushOffsetHeader"),
    R.CONTROLLER_ALTER_SYNC_STATE_SET: _Row(ADMINISTER, "controller.AlterSyncStateSetHeader"),
    R.CONTROLLER_ELECT_MASTER: _Row(ADMINISTER, "controller.ElectMasterHeader"),
    R.CONTROLLER_REGISTER_BROKER: _Row(ADMINISTER, "controller.RegisterToControllerHeader"),
    R.CONTROLLER_GET_REPLICA_INFO: _Row(READ, "controller.ReplicaInfoHeader"),
    R.CONTROLLER_GET_METADATA_INFO: _Row(READ),
    R.CONTROLLER_GET_SYNC_STATE_DATA: _Row(READ),
    R.GET_BROKER_EPOCH_CACHE: _Row(READ),
    R.NOTIFY_BROKER_ROLE_CHANGED: _Row(ADMINISTER, "controller.RoleChangeHeader"),
    R.UPDATE_CONTROLLER_CONFIG: _Row(ADMINISTER),
    R.GET_CONTROLLER_CONFIG: _Row(READ),
    R.CLEAN_BROKER_DATA: _Row(ADMINISTER, "controller.CleanBrokerDataHeader"),
    R.CONTROLLER_GET_NEXT_BROKER_ID: _Row(READ, "controller.NextBrokerIdHeader"),
    R.CONTROLLER_APPLY_BROKER_ID: _Row(ADMINISTER, "controller.ApplyBrokerIdHeader"),
    R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _Row(ADMINISTER),
    R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _Row(ADMINISTER),
    R.GET_COLD_DATA_FLOW_CTR_INFO: _Row(READ),
    R.SET_COMMITLOG_READ_MODE: _Row(ADMINISTER, "tables.ReadModeHeader"),
    R.AUTH_CREATE_USER: _Row(ADMINISTER, "tables.UserHeader"),
    R.AUTH_UPDATE_USER: _Row(ADMINISTER, "tables.UserHeader"),
    R.AUTH_DELETE_USER: _Row(ADMINISTER, "tables.UserHeader"),
    R.AUTH_GET_USER: _Row(READ, "tables.UserHeader"),
    R.AUTH_LIST_USER: _Row(READ, "tables.ListUsersHeader"),
    R.AUTH_CREATE_ACL: _Row(ADMINISTER, "tables.SubjectHeader"),
    R.AUTH_UPDATE_ACL: _Row(ADMINISTER, "tables.SubjectHeader"),
    R.AUTH_DELETE_ACL: _Row(ADMINISTER, "tables.DeleteAclHeader"),
    R.AUTH_GET_ACL: _Row(READ, "tables.SubjectHeader"),
    R.AUTH_LIST_ACL: _Row(READ, "tables.ListAclsHeader"),
    R.SWITCH_TIMER_ENGINE: _Row(ADMINISTER, "tables.SwitchTimerEngineHeader"),
    R.POP_MESSAGE: _Row(CONSUME, "popping.PopHeader"),
    R.ACK_MESSAGE: _Row(CONSUME, "popping.AckHeader"),
    R.PEEK_MESSAGE: _Row(CONSUME, "popping.PeekHeader"),
    R.CHANGE_MESSAGE_INVISIBLETIME: _Row(CONSUME, "popping.ChangeInvisibleTimeHeader"),
    R.NOTIFICATION: _Row(CONSUME, "popping.NotificationHeader"),
    R.POLLING_INFO: _Row(CONSUME, "popping.PollingInfoHeader"),
    R.POP_ROLLBACK: _Row(ADMINISTER),
    R.POP_LITE_MESSAGE: _Row(CONSUME, "popping.PopLiteHeader"),
    R.LITE_SUBSCRIPTION_CTL: _Row(CONSUME),
    R.NOTIFY_UNSUBSCRIBE_LITE: _Row(CONSUME, "popping.UnsubscribeLiteHeader"),
    R.GET_BROKER_LITE_INFO: _Row(READ),
    R.GET_PARENT_TOPIC_INFO: _Row(READ, "tables.TopicHeader"),
    R.GET_LITE_TOPIC_INFO: _Row(READ, "popping.LiteTopicHeader"),
    R.GET_LITE_CLIENT_INFO: _Row(READ, "popping.LiteClientHeader"),
    R.GET_LITE_GROUP_INFO: _Row(READ, "popping.LiteGroupHeader"),
    R.TRIGGER_LITE_DISPATCH: _Row(ADMINISTER, "popping.LiteDispatchHeader"),
    R.BATCH_ACK_MESSAGE: _Row(CONSUME),
    O.SET_FAULTS: _Row(ADMINISTER),
    O.GET_FAULTS: _Row(READ),
    O.RESET: _Row(ADMINISTER),
    O.SNAPSHOT: _Row(ADMINISTER),
    O.RESTORE: _Row(ADMINISTER),
    O.GET_SNAPSHOTS: _Row(READ),
}  # fmt: skip


def codes_of(kind: RequestKind) -> frozenset[int]:
    return frozenset(code for code, row in REQUESTS.items() if row.kind is kind)


READING_CODES = codes_of(RequestKind.READ)
"""The requests that a client may send that only reads."""


def __getattr__(name: str) -> Any:
    if name != "REQUEST_HEADERS":
        raise AttributeError(name)
    found = {code: _header(row.header) for code, row in REQUESTS.items() if row.header}
    return globals().setdefault(name, found)


def _header(name: str) -> type[Header]:
    file, _, class_name = name.partition(".")
    header: type[Header] = getattr(getattr(headers, file), class_name)
    return header
