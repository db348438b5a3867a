"""What a server adds to the requests of the protocol (``rmqproto/headers/request_table.py``): the permissions that each
needs, what a slave does with it, and which rate limit counts it. For a code that needs nothing, any known user will do.
A code that is not here is for super users only."""

from __future__ import annotations

import enum
from typing import NamedTuple

from rmqproto.access.resources import Action
from rmqproto.codes import OwnRequestCode
from rmqproto.codes import RequestCode as R
from rmqserver.request_needs import (
    PairsOf,
    batch_acks,
    both,
    cluster_of,
    end_transaction,
    fields_of,
    group_and_topic,
    heartbeat,
    lite_subscriptions,
    locks,
    named_cluster,
    nothing,
    plain_heartbeat,
    route,
    send_pairs,
    unregister,
    view_message_strict,
)

PUB, SUB, CREATE, UPDATE, DELETE, GET = (
    Action.PUB, Action.SUB, Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET,
)  # fmt: skip


class OnSlave(enum.Enum):
    """What a slave does with a request. Under controllers, it passes all but the first kind on to its master."""

    SERVED = enum.auto()
    SERVED_WITHOUT_MASTER = enum.auto()
    """Passed on, and served if there is no master."""
    READ = enum.auto()
    """Passed on only while the slave may not be read."""
    REFUSED = enum.auto()
    """Passed on, or refused as by a busy broker."""
    ENDS_NOTHING = enum.auto()
    """Passed on, or refused with words of its own: it would end what the master has."""


class CountsAs(enum.Enum):
    SEND = enum.auto()
    PULL = enum.auto()


class ServedRequest(NamedTuple):
    pairs: PairsOf
    strict: PairsOf | None = None
    """Replaces ``pairs`` with authorizationStrictEnabled, for codes that need nothing, or too little, at Apache's."""
    names: tuple[str, ...] = ()
    """Only for a hot request: two or more header fields; the pairs depend on no others."""
    plain: PairsOf | None = None
    """What ACL 1.0 requires of an account (``PlainAccessResource.parse``, 5.3.2), each with PUB or SUB; None: any
    account will do."""
    is_admins: bool = False
    """Whether ACL 1.0 requires an administrator's account."""
    on_slave: OnSlave = OnSlave.SERVED
    counts_as: CountsAs | None = None
    """The rate limit of a topic that counts it."""


_TOPIC_AND_GROUP = ("topic", "consumer_group")
_SUB_BOTH = fields_of(SUB, group="consumer_group", topic="topic")
_REFUSED, _ELSE_SERVED = OnSlave.REFUSED, OnSlave.SERVED_WITHOUT_MASTER
_SEND = ServedRequest(
    send_pairs, names=("topic", "producer_group"), plain=send_pairs, on_slave=_REFUSED, counts_as=CountsAs.SEND
)
_PULL = ServedRequest(
    group_and_topic(SUB), names=_TOPIC_AND_GROUP, plain=_SUB_BOTH, on_slave=OnSlave.READ, counts_as=CountsAs.PULL
)
_ACK = ServedRequest(_SUB_BOTH, names=_TOPIC_AND_GROUP, plain=_SUB_BOTH, on_slave=_REFUSED)
_POP = _ACK._replace(counts_as=CountsAs.PULL)
_TOPIC_GET = fields_of(GET, topic="topic")
_CLUSTER_GET, _CLUSTER_UPDATE = cluster_of(GET), cluster_of(UPDATE)

_KNOWN = ServedRequest(nothing)
"""Any known user may."""
_REPLY = ServedRequest(nothing, on_slave=_REFUSED)
_READS = ServedRequest(nothing, _CLUSTER_GET)
"""Apache requires only a known user; in strict mode this counts as reading the whole broker."""
_CHANGES = ServedRequest(nothing, _CLUSTER_UPDATE, is_admins=True)
"""Apache requires only a known user; in strict mode this counts as changing the whole broker."""
_ADMIN = ServedRequest(_CLUSTER_UPDATE, is_admins=True)

SERVED: dict[int, ServedRequest] = {
    # Messages in.
    R.SEND_MESSAGE: _SEND,
    R.SEND_MESSAGE_V2: _SEND,
    R.SEND_BATCH_MESSAGE: _SEND,
    R.SEND_REPLY_MESSAGE: _REPLY,
    R.SEND_REPLY_MESSAGE_V2: _REPLY,
    R.CONSUMER_SEND_MSG_BACK: ServedRequest(
        fields_of(SUB, group="group"), plain=fields_of(SUB, group="group"), on_slave=_REFUSED
    ),
    R.END_TRANSACTION: ServedRequest(end_transaction, on_slave=OnSlave.ENDS_NOTHING),
    R.RECALL_MESSAGE: ServedRequest(
        fields_of(PUB, topic="topic"), plain=fields_of(PUB, topic="topic"), on_slave=OnSlave.ENDS_NOTHING
    ),
    # Messages out. Apache requires nothing for 361, 200070, 200071 and 200151. Here they need what similar codes need,
    # which their senders' heartbeats need anyway.
    R.PULL_MESSAGE: _PULL,
    R.LITE_PULL_MESSAGE: _PULL,
    R.POP_MESSAGE: _POP,
    R.POP_LITE_MESSAGE: _POP,
    R.PEEK_MESSAGE: ServedRequest(fields_of(SUB, topic="topic", group="consumer_group"), plain=_SUB_BOTH),
    R.ACK_MESSAGE: _ACK,
    R.BATCH_ACK_MESSAGE: ServedRequest(batch_acks, plain=batch_acks, on_slave=_REFUSED),
    R.CHANGE_MESSAGE_INVISIBLETIME: _ACK,
    R.NOTIFICATION: _ACK._replace(on_slave=OnSlave.SERVED),
    R.POLLING_INFO: ServedRequest(fields_of(GET, group="consumer_group", topic="topic")),
    R.LITE_SUBSCRIPTION_CTL: ServedRequest(lite_subscriptions, plain=lite_subscriptions),
    R.QUERY_MESSAGE: ServedRequest(fields_of(SUB, GET, topic="topic"), plain=fields_of(SUB, topic="topic")),
    R.VIEW_MESSAGE_BY_ID: ServedRequest(_TOPIC_GET, view_message_strict),
    # Members of groups, and the groups' offsets.
    R.HEART_BEAT: ServedRequest(heartbeat, plain=plain_heartbeat),
    R.UNREGISTER_CLIENT: ServedRequest(unregister, plain=unregister),
    R.CHECK_CLIENT_CONFIG: _KNOWN,
    R.QUERY_ASSIGNMENT: _KNOWN,
    R.LOCK_BATCH_MQ: ServedRequest(locks, on_slave=_ELSE_SERVED),
    R.UNLOCK_BATCH_MQ: ServedRequest(locks, on_slave=_ELSE_SERVED),
    R.GET_CONSUMER_LIST_BY_GROUP: ServedRequest(
        fields_of(SUB, GET, group="consumer_group"), plain=fields_of(SUB, group="consumer_group")
    ),
    R.QUERY_CONSUMER_OFFSET: ServedRequest(group_and_topic(SUB, GET)),
    R.UPDATE_CONSUMER_OFFSET: ServedRequest(
        group_and_topic(SUB, UPDATE), plain=_SUB_BOTH, on_slave=_ELSE_SERVED
    ),
    # Requests that the broker sends to its clients; it serves none of them.
    R.CHECK_TRANSACTION_STATE: ServedRequest(fields_of(PUB, topic="topic")),
    R.NOTIFY_CONSUMER_IDS_CHANGED: ServedRequest(fields_of(SUB, group="consumer_group")),
    R.RESET_CONSUMER_CLIENT_OFFSET: _KNOWN,
    R.GET_CONSUMER_STATUS_FROM_CLIENT: _KNOWN,
    R.PUSH_REPLY_MESSAGE_TO_CLIENT: _KNOWN,
    R.NOTIFY_UNSUBSCRIBE_LITE: ServedRequest(fields_of(SUB, group="consumer_group")),
    # Topics.
    R.UPDATE_AND_CREATE_TOPIC: ServedRequest(fields_of(CREATE, topic="topic"), is_admins=True),
    R.UPDATE_AND_CREATE_TOPIC_LIST: _CHANGES,
    R.UPDATE_AND_CREATE_STATIC_TOPIC: _CHANGES,
    R.DELETE_TOPIC_IN_BROKER: ServedRequest(fields_of(DELETE, topic="topic"), is_admins=True),
    R.GET_TOPIC_CONFIG: ServedRequest(_TOPIC_GET),
    R.GET_TOPIC_STATS_INFO: ServedRequest(_TOPIC_GET),
    R.QUERY_TOPIC_CONSUME_BY_WHO: ServedRequest(_TOPIC_GET),
    R.SEARCH_OFFSET_BY_TIMESTAMP: ServedRequest(_TOPIC_GET),
    R.GET_MAX_OFFSET: ServedRequest(_TOPIC_GET),
    R.GET_MIN_OFFSET: ServedRequest(_TOPIC_GET),
    R.GET_EARLIEST_MSG_STORETIME: ServedRequest(_TOPIC_GET),
    R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: ServedRequest(_TOPIC_GET),
    R.RESUME_CHECK_HALF_MESSAGE: ServedRequest(fields_of(UPDATE, topic="topic")),
    R.GET_ALL_TOPIC_CONFIG: _READS,
    R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _READS,
    # Groups.
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _CHANGES,
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _CHANGES,
    R.DELETE_SUBSCRIPTIONGROUP: ServedRequest(fields_of(DELETE, group="group_name"), is_admins=True),
    R.GET_SUBSCRIPTIONGROUP_CONFIG: ServedRequest(fields_of(GET, group="group")),
    R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _READS,
    R.QUERY_TOPICS_BY_CONSUMER: ServedRequest(fields_of(GET, group="group")),
    R.QUERY_SUBSCRIPTION_BY_CONSUMER: ServedRequest(fields_of(GET, group="group", topic="topic")),
    R.UPDATE_AND_GET_GROUP_FORBIDDEN: ServedRequest(fields_of(UPDATE, group="group", topic="topic")),
    R.SET_MESSAGE_REQUEST_MODE: _CHANGES,
    R.GET_ALL_MESSAGE_REQUEST_MODE: _READS,
    R.GET_ALL_CONSUMER_OFFSET: _READS,
    R.GET_CONSUME_STATS: ServedRequest(
        both(
            fields_of(GET, group="consumer_group", topic="topic"), fields_of(GET, topic="topic_list", split=";")
        )
    ),
    R.QUERY_CONSUME_TIME_SPAN: ServedRequest(fields_of(GET, topic="topic", group="group")),
    R.QUERY_CONSUME_QUEUE: ServedRequest(fields_of(GET, topic="topic", group="consumer_group")),
    R.QUERY_CORRECTION_OFFSET: ServedRequest(
        both(
            fields_of(GET, group="filter_groups", split=","), fields_of(GET, group="compare_group", topic="topic")
        )
    ),
    R.INVOKE_BROKER_TO_RESET_OFFSET: ServedRequest(fields_of(UPDATE, group="group", topic="topic")),
    R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ServedRequest(fields_of(GET, topic="topic", group="group")),
    R.CLONE_GROUP_OFFSET: ServedRequest(fields_of(UPDATE, group="dest_group", topic="topic")),
    # Clients that are online.
    R.GET_CONSUMER_CONNECTION_LIST: ServedRequest(fields_of(GET, group="consumer_group")),
    R.GET_PRODUCER_CONNECTION_LIST: ServedRequest(_CLUSTER_GET),
    R.GET_ALL_PRODUCER_INFO: ServedRequest(_CLUSTER_GET),
    R.GET_CONSUMER_RUNNING_INFO: ServedRequest(fields_of(GET, group="consumer_group")),
    R.CONSUME_MESSAGE_DIRECTLY: ServedRequest(fields_of(SUB, group="consumer_group", topic="topic")),
    # The broker.
    R.UPDATE_BROKER_CONFIG: _CHANGES,
    R.GET_BROKER_CONFIG: _READS,
    R.GET_BROKER_RUNTIME_INFO: _READS,
    R.VIEW_BROKER_STATS_DATA: ServedRequest(_CLUSTER_GET),
    R.GET_BROKER_CONSUME_STATS: ServedRequest(_CLUSTER_GET),
    R.CLEAN_EXPIRED_CONSUMEQUEUE: _CHANGES,
    R.CLEAN_UNUSED_TOPIC: _CHANGES,
    R.DELETE_EXPIRED_COMMITLOG: _CHANGES,
    R.GET_ALL_DELAY_OFFSET: _READS,
    R.GET_TIMER_CHECK_POINT: _READS,
    R.GET_TIMER_METRICS: _READS,
    R.SWITCH_TIMER_ENGINE: _CHANGES,
    R.POP_ROLLBACK: _CHANGES,
    R.EXPORT_ROCKSDB_CONFIG_TO_JSON: ServedRequest(_CLUSTER_GET),
    R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _CHANGES,
    R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _CHANGES,
    R.GET_COLD_DATA_FLOW_CTR_INFO: _READS,
    R.SET_COMMITLOG_READ_MODE: _CHANGES,
    R.GET_BROKER_LITE_INFO: _READS,
    R.GET_PARENT_TOPIC_INFO: _READS,
    R.GET_LITE_TOPIC_INFO: _READS,
    R.GET_LITE_CLIENT_INFO: _READS,
    R.GET_LITE_GROUP_INFO: _READS,
    R.TRIGGER_LITE_DISPATCH: _CHANGES,
    # Replication, controllers, containers.
    R.GET_BROKER_HA_STATUS: _READS,
    R.EXCHANGE_BROKER_HA_INFO: _ADMIN,
    R.RESET_MASTER_FLUSH_OFFSET: _ADMIN,
    R.GET_BROKER_EPOCH_CACHE: _READS,
    R.ADD_BROKER: _ADMIN,
    R.REMOVE_BROKER: ServedRequest(named_cluster("broker_cluster_name", UPDATE)),
    R.CONTROLLER_ALTER_SYNC_STATE_SET: _ADMIN,
    R.CONTROLLER_ELECT_MASTER: ServedRequest(named_cluster("cluster_name", UPDATE)),
    R.CONTROLLER_REGISTER_BROKER: ServedRequest(named_cluster("cluster_name", UPDATE)),
    R.CONTROLLER_GET_REPLICA_INFO: ServedRequest(_CLUSTER_GET),
    R.NOTIFY_MIN_BROKER_ID_CHANGE: _ADMIN,
    R.NOTIFY_BROKER_ROLE_CHANGED: _ADMIN,
    R.CONTROLLER_GET_NEXT_BROKER_ID: ServedRequest(named_cluster("cluster_name", GET)),
    R.CONTROLLER_APPLY_BROKER_ID: ServedRequest(named_cluster("cluster_name", UPDATE)),
    R.CONTROLLER_GET_METADATA_INFO: _READS,
    R.CONTROLLER_GET_SYNC_STATE_DATA: _READS,
    R.UPDATE_CONTROLLER_CONFIG: _CHANGES,
    R.GET_CONTROLLER_CONFIG: _READS,
    R.CLEAN_BROKER_DATA: ServedRequest(named_cluster("cluster_name", UPDATE)),
    # Users and policies.
    **dict.fromkeys((R.AUTH_CREATE_USER, R.AUTH_UPDATE_USER, R.AUTH_DELETE_USER), _ADMIN),
    **dict.fromkeys((R.AUTH_CREATE_ACL, R.AUTH_UPDATE_ACL, R.AUTH_DELETE_ACL), _ADMIN),
    **dict.fromkeys((R.AUTH_GET_USER, R.AUTH_LIST_USER, R.AUTH_GET_ACL, R.AUTH_LIST_ACL), ServedRequest(_CLUSTER_GET)),
    # The nameserver. Apache's checks nothing; these follow the annotations of its requests.
    R.GET_ROUTEINFO_BY_TOPIC: ServedRequest(route),
    R.GET_BROKER_CLUSTER_INFO: _KNOWN,
    R.REGISTER_BROKER: ServedRequest(named_cluster("cluster_name", UPDATE)),
    R.UNREGISTER_BROKER: ServedRequest(named_cluster("cluster_name", UPDATE)),
    R.QUERY_DATA_VERSION: ServedRequest(named_cluster("cluster_name", GET)),
    R.BROKER_HEARTBEAT: ServedRequest(named_cluster("cluster_name", UPDATE)),
    R.GET_BROKER_MEMBER_GROUP: ServedRequest(named_cluster("cluster_name", GET)),
    R.REGISTER_TOPIC_IN_NAMESRV: _ADMIN,
    R.DELETE_TOPIC_IN_NAMESRV: ServedRequest(named_cluster("cluster_name", UPDATE)),
    R.WIPE_WRITE_PERM_OF_BROKER: _ADMIN,
    R.ADD_WRITE_PERM_OF_BROKER: _ADMIN,
    R.PUT_KV_CONFIG: _ADMIN,
    R.GET_KV_CONFIG: ServedRequest(_CLUSTER_GET),
    R.DELETE_KV_CONFIG: _ADMIN,
    R.GET_KVLIST_BY_NAMESPACE: ServedRequest(_CLUSTER_GET),
    R.UPDATE_NAMESRV_CONFIG: _ADMIN,
    R.GET_NAMESRV_CONFIG: ServedRequest(_CLUSTER_GET),
    **dict.fromkeys(
        (
            R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, R.GET_TOPICS_BY_CLUSTER, R.GET_SYSTEM_TOPIC_LIST_FROM_NS,
            R.GET_UNIT_TOPIC_LIST, R.GET_HAS_UNIT_SUB_TOPIC_LIST, R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        ),
        _KNOWN,
    ),
    # Ours.
    **dict.fromkeys(OwnRequestCode, _ADMIN),
}  # fmt: skip


def on_slave(*places: OnSlave) -> frozenset[int]:
    """The codes with which a slave does one of these."""
    return frozenset(code for code, row in SERVED.items() if row.on_slave in places)
