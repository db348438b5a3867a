"""The permissions that each request code needs, in one table (``DefaultAuthorizationContextBuilder`` and the
``RocketMQAction`` and ``RocketMQResource`` of the request headers, 5.5.0).

A request needs pairs of a resource and actions; a pair is met if one of its actions is allowed. For a code that needs
nothing, any known user will do. A code that is not in the table is for super users only.

Each row says where the names come from: fields of the typed header (the one that the handler acts on), or the body. A
retry topic stands for its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from rmqproto.access.resources import Action, Resource, ResourceType, group_resource, topic_resource
from rmqproto.bodies.groups import Heartbeat, LockRequest
from rmqproto.bodies.lite import LiteSubscriptionCtl
from rmqproto.bodies.popping import BatchAcks
from rmqproto.codes import OwnRequestCode
from rmqproto.codes import RequestCode as R
from rmqproto.headers.base import ext_names
from rmqproto.headers.table import REQUEST_HEADERS
from rmqproto.names import RETRY_PREFIX
from rmqproto.wire import fastjson
from rmqserver.remoting.answer import Request

PUB, SUB, CREATE, UPDATE, DELETE, GET = (
    Action.PUB, Action.SUB, Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET,
)  # fmt: skip


class Pair(NamedTuple):
    resource: Resource
    actions: tuple[Action, ...]


Pairs = Iterator[Pair]
PairsOf = Callable[[Request[Any], str], Pairs]
"""Takes a request and the name of the broker's cluster. Raises ProtocolError for a body that cannot be read."""


class Need(NamedTuple):
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


# --- what names are taken from ---------------------------------------------------------------------------------------


def nothing(request: Request[Any], cluster: str) -> Pairs:
    return iter(())


def _cluster(*actions: Action) -> PairsOf:
    def pairs(request: Request[Any], cluster: str) -> Pairs:
        yield Pair(Resource(ResourceType.CLUSTER, cluster), actions)

    return pairs


def _named_cluster(field: str, *actions: Action) -> PairsOf:
    """The cluster that the request names; the broker's own if it names none."""

    def pairs(request: Request[Any], cluster: str) -> Pairs:
        yield Pair(Resource(ResourceType.CLUSTER, getattr(request.header, field, None) or cluster), actions)

    return pairs


_RESOURCES = {"topic": topic_resource, "group": group_resource}


def _fields(*actions: Action, split: str = "", **fields: str) -> PairsOf:
    """``topic`` and ``group`` name fields of the header, in the order of judging. An absent field needs nothing.
    ``split`` separates several names in one field."""

    def pairs(request: Request[Any], cluster: str) -> Pairs:
        for kind, field in fields.items():
            text = getattr(request.header, field)
            for name in () if text is None else filter(None, text.split(split)) if split else (text,):
                yield Pair(_RESOURCES[kind](name), actions)

    return pairs


def _both(one: PairsOf, other: PairsOf) -> PairsOf:
    def pairs(request: Request[Any], cluster: str) -> Pairs:
        yield from one(request, cluster)
        yield from other(request, cluster)

    return pairs


def _send(request: Request[Any], cluster: str) -> Pairs:
    """A send to a retry topic needs that topic's group, whatever group the request names: a consumer whose message
    cannot be sent back sends it to the retry topic as CLIENT_INNER_PRODUCER."""
    topic = request.header.topic
    if topic.startswith(RETRY_PREFIX):
        yield Pair(group_resource(topic), (SUB,))
    else:
        yield Pair(topic_resource(topic), (PUB,))


def _plain_send(request: Request[Any], cluster: str) -> Pairs:
    """A send to a retry topic needs that topic's group, whatever group the request names."""
    topic = request.header.topic
    yield Pair(topic_resource(topic), (SUB,) if topic.startswith(RETRY_PREFIX) else (PUB,))


def _end_transaction(request: Request[Any], cluster: str) -> Pairs:
    topic = request.header.topic
    if topic and topic.strip():
        yield Pair(Resource(ResourceType.TOPIC, topic), (PUB,))


def _group_and_topic(*actions: Action) -> PairsOf:
    """With a retry topic, of any group, only the request's group is needed, as in Apache."""

    def pairs(request: Request[Any], cluster: str) -> Pairs:
        topic, group = request.header.topic or "", request.header.consumer_group or ""
        if not topic.startswith(RETRY_PREFIX):
            yield Pair(topic_resource(topic), actions)
        yield Pair(group_resource(group), actions)

    return pairs


def _unregister(request: Request[Any], cluster: str) -> Pairs:
    group = request.header.consumer_group
    if group and group.strip():
        yield Pair(group_resource(group), (SUB,))


def _plain_heartbeat(request: Request[Any], cluster: str) -> Pairs:
    """Unlike ``_heartbeat``, includes retry topics, of any group."""
    for data in fastjson.loads_untrusted(request.body, Heartbeat).consumer_data_set:
        yield Pair(group_resource(data.group_name), (SUB,))
        for subscription in data.subscription_data_set:
            yield Pair(topic_resource(subscription.topic), (SUB,))


def _heartbeat(request: Request[Any], cluster: str) -> Pairs:
    for data in fastjson.loads_untrusted(request.body, Heartbeat).consumer_data_set:
        yield Pair(group_resource(data.group_name), (SUB,))
        for subscription in data.subscription_data_set:
            if not subscription.topic.startswith(RETRY_PREFIX):
                yield Pair(topic_resource(subscription.topic), (SUB,))


def _locks(request: Request[Any], cluster: str) -> Pairs:
    wanted = fastjson.loads_untrusted(request.body, LockRequest)
    yield Pair(group_resource(wanted.consumer_group), (SUB,))
    for topic in {queue.topic: None for queue in wanted.mq_set}:
        if not topic.startswith(RETRY_PREFIX):
            yield Pair(topic_resource(topic), (SUB,))


def _batch_acks(request: Request[Any], cluster: str) -> Pairs:
    for ack in fastjson.loads_untrusted(request.body, BatchAcks).acks or () if request.body else ():
        yield Pair(group_resource(ack.consumer_group), (SUB,))
        yield Pair(topic_resource(ack.topic), (SUB,))


def _lite_subscriptions(request: Request[Any], cluster: str) -> Pairs:
    for change in fastjson.loads_untrusted(request.body, LiteSubscriptionCtl).subscription_set or ():
        if change.group:
            yield Pair(group_resource(change.group), (SUB,))
        if change.topic:
            yield Pair(topic_resource(change.topic), (SUB,))


def _route(request: Request[Any], cluster: str) -> Pairs:
    topic = request.header.topic
    yield Pair(topic_resource(topic), (SUB, GET) if topic.startswith(RETRY_PREFIX) else (PUB, SUB, GET))


def _view_message_strict(request: Request[Any], cluster: str) -> Pairs:
    """Without a topic, a message of any topic can be asked for by its id, so the cluster is needed."""
    topic = request.header.topic
    yield Pair(topic_resource(topic) if topic else Resource(ResourceType.CLUSTER, cluster), (GET,))


# --- the table -------------------------------------------------------------------------------------------------------

_TOPIC_AND_GROUP = ("topic", "consumer_group")
_SUB_BOTH = _fields(SUB, group="consumer_group", topic="topic")
_SEND = Need(_send, names=("topic", "producer_group"), plain=_plain_send)
_PULL = Need(_group_and_topic(SUB), names=_TOPIC_AND_GROUP, plain=_SUB_BOTH)
_POP = Need(_SUB_BOTH, names=_TOPIC_AND_GROUP, plain=_SUB_BOTH)
_TOPIC_GET = _fields(GET, topic="topic")
_CLUSTER_GET, _CLUSTER_UPDATE = _cluster(GET), _cluster(UPDATE)

_KNOWN = Need(nothing)
"""Any known user may."""
_READS = Need(nothing, _CLUSTER_GET)
"""Apache requires only a known user; in strict mode this counts as reading the whole broker."""
_CHANGES = Need(nothing, _CLUSTER_UPDATE, is_admins=True)
"""Apache requires only a known user; in strict mode this counts as changing the whole broker."""
_ADMIN = Need(_CLUSTER_UPDATE, is_admins=True)

NEEDS: dict[int, Need] = {
    # Messages in.
    R.SEND_MESSAGE: _SEND,
    R.SEND_MESSAGE_V2: _SEND,
    R.SEND_BATCH_MESSAGE: _SEND,
    R.SEND_REPLY_MESSAGE: _KNOWN,
    R.SEND_REPLY_MESSAGE_V2: _KNOWN,
    R.CONSUMER_SEND_MSG_BACK: Need(_fields(SUB, group="group"), plain=_fields(SUB, group="group")),
    R.END_TRANSACTION: Need(_end_transaction),
    R.RECALL_MESSAGE: Need(_fields(PUB, topic="topic"), plain=_fields(PUB, topic="topic")),
    # Messages out. Apache requires nothing for 361, 200070, 200071 and 200151. Here they need what similar codes need,
    # which their senders' heartbeats need anyway.
    R.PULL_MESSAGE: _PULL,
    R.LITE_PULL_MESSAGE: _PULL,
    R.POP_MESSAGE: _POP,
    R.POP_LITE_MESSAGE: _POP,
    R.PEEK_MESSAGE: Need(_fields(SUB, topic="topic", group="consumer_group"), plain=_SUB_BOTH),
    R.ACK_MESSAGE: _POP,
    R.BATCH_ACK_MESSAGE: Need(_batch_acks, plain=_batch_acks),
    R.CHANGE_MESSAGE_INVISIBLETIME: _POP,
    R.NOTIFICATION: _POP,
    R.POLLING_INFO: Need(_fields(GET, group="consumer_group", topic="topic")),
    R.LITE_SUBSCRIPTION_CTL: Need(_lite_subscriptions, plain=_lite_subscriptions),
    R.QUERY_MESSAGE: Need(_fields(SUB, GET, topic="topic"), plain=_fields(SUB, topic="topic")),
    R.VIEW_MESSAGE_BY_ID: Need(_TOPIC_GET, _view_message_strict),
    # Members of groups, and the groups' offsets.
    R.HEART_BEAT: Need(_heartbeat, plain=_plain_heartbeat),
    R.UNREGISTER_CLIENT: Need(_unregister, plain=_unregister),
    R.CHECK_CLIENT_CONFIG: _KNOWN,
    R.QUERY_ASSIGNMENT: _KNOWN,
    R.LOCK_BATCH_MQ: Need(_locks),
    R.UNLOCK_BATCH_MQ: Need(_locks),
    R.GET_CONSUMER_LIST_BY_GROUP: Need(
        _fields(SUB, GET, group="consumer_group"), plain=_fields(SUB, group="consumer_group")
    ),
    R.QUERY_CONSUMER_OFFSET: Need(_group_and_topic(SUB, GET)),
    R.UPDATE_CONSUMER_OFFSET: Need(_group_and_topic(SUB, UPDATE), plain=_SUB_BOTH),
    # Requests that the broker sends to its clients; it serves none of them.
    R.CHECK_TRANSACTION_STATE: Need(_fields(PUB, topic="topic")),
    R.NOTIFY_CONSUMER_IDS_CHANGED: Need(_fields(SUB, group="consumer_group")),
    R.RESET_CONSUMER_CLIENT_OFFSET: _KNOWN,
    R.GET_CONSUMER_STATUS_FROM_CLIENT: _KNOWN,
    R.PUSH_REPLY_MESSAGE_TO_CLIENT: _KNOWN,
    R.NOTIFY_UNSUBSCRIBE_LITE: Need(_fields(SUB, group="consumer_group")),
    # Topics.
    R.UPDATE_AND_CREATE_TOPIC: Need(_fields(CREATE, topic="topic"), is_admins=True),
    R.UPDATE_AND_CREATE_TOPIC_LIST: _CHANGES,
    R.UPDATE_AND_CREATE_STATIC_TOPIC: _CHANGES,
    R.DELETE_TOPIC_IN_BROKER: Need(_fields(DELETE, topic="topic"), is_admins=True),
    R.GET_TOPIC_CONFIG: Need(_TOPIC_GET),
    R.GET_TOPIC_STATS_INFO: Need(_TOPIC_GET),
    R.QUERY_TOPIC_CONSUME_BY_WHO: Need(_TOPIC_GET),
    R.SEARCH_OFFSET_BY_TIMESTAMP: Need(_TOPIC_GET),
    R.GET_MAX_OFFSET: Need(_TOPIC_GET),
    R.GET_MIN_OFFSET: Need(_TOPIC_GET),
    R.GET_EARLIEST_MSG_STORETIME: Need(_TOPIC_GET),
    R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: Need(_TOPIC_GET),
    R.RESUME_CHECK_HALF_MESSAGE: Need(_fields(UPDATE, topic="topic")),
    R.GET_ALL_TOPIC_CONFIG: _READS,
    R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _READS,
    # Groups.
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _CHANGES,
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _CHANGES,
    R.DELETE_SUBSCRIPTIONGROUP: Need(_fields(DELETE, group="group_name"), is_admins=True),
    R.GET_SUBSCRIPTIONGROUP_CONFIG: Need(_fields(GET, group="group")),
    R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _READS,
    R.QUERY_TOPICS_BY_CONSUMER: Need(_fields(GET, group="group")),
    R.QUERY_SUBSCRIPTION_BY_CONSUMER: Need(_fields(GET, group="group", topic="topic")),
    R.UPDATE_AND_GET_GROUP_FORBIDDEN: Need(_fields(UPDATE, group="group", topic="topic")),
    R.SET_MESSAGE_REQUEST_MODE: _CHANGES,
    R.GET_ALL_MESSAGE_REQUEST_MODE: _READS,
    R.GET_ALL_CONSUMER_OFFSET: _READS,
    R.GET_CONSUME_STATS: Need(
        _both(
            _fields(GET, group="consumer_group", topic="topic"), _fields(GET, topic="topic_list", split=";")
        )
    ),
    R.QUERY_CONSUME_TIME_SPAN: Need(_fields(GET, topic="topic", group="group")),
    R.QUERY_CONSUME_QUEUE: Need(_fields(GET, topic="topic", group="consumer_group")),
    R.QUERY_CORRECTION_OFFSET: Need(
        _both(
            _fields(GET, group="filter_groups", split=","), _fields(GET, group="compare_group", topic="topic")
        )
    ),
    R.INVOKE_BROKER_TO_RESET_OFFSET: Need(_fields(UPDATE, group="group", topic="topic")),
    R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Need(_fields(GET, topic="topic", group="group")),
    R.CLONE_GROUP_OFFSET: Need(_fields(UPDATE, group="dest_group", topic="topic")),
    # Clients that are online.
    R.GET_CONSUMER_CONNECTION_LIST: Need(_fields(GET, group="consumer_group")),
    R.GET_PRODUCER_CONNECTION_LIST: Need(_CLUSTER_GET),
    R.GET_ALL_PRODUCER_INFO: Need(_CLUSTER_GET),
    R.GET_CONSUMER_RUNNING_INFO: Need(_fields(GET, group="consumer_group")),
    R.CONSUME_MESSAGE_DIRECTLY: Need(_fields(SUB, group="consumer_group", topic="topic")),
    # The broker.
    R.UPDATE_BROKER_CONFIG: _CHANGES,
    R.GET_BROKER_CONFIG: _READS,
    R.GET_BROKER_RUNTIME_INFO: _READS,
    R.VIEW_BROKER_STATS_DATA: Need(_CLUSTER_GET),
    R.GET_BROKER_CONSUME_STATS: Need(_CLUSTER_GET),
    R.CLEAN_EXPIRED_CONSUMEQUEUE: _CHANGES,
    R.CLEAN_UNUSED_TOPIC: _CHANGES,
    R.DELETE_EXPIRED_COMMITLOG: _CHANGES,
    R.GET_ALL_DELAY_OFFSET: _READS,
    R.GET_TIMER_CHECK_POINT: _READS,
    R.GET_TIMER_METRICS: _READS,
    R.SWITCH_TIMER_ENGINE: _CHANGES,
    R.POP_ROLLBACK: _CHANGES,
    R.EXPORT_ROCKSDB_CONFIG_TO_JSON: Need(_CLUSTER_GET),
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
    R.REMOVE_BROKER: Need(_named_cluster("broker_cluster_name", UPDATE)),
    R.CONTROLLER_ALTER_SYNC_STATE_SET: _ADMIN,
    R.CONTROLLER_ELECT_MASTER: Need(_named_cluster("cluster_name", UPDATE)),
    R.CONTROLLER_REGISTER_BROKER: Need(_named_cluster("cluster_name", UPDATE)),
    R.CONTROLLER_GET_REPLICA_INFO: Need(_CLUSTER_GET),
    R.NOTIFY_MIN_BROKER_ID_CHANGE: _ADMIN,
    R.NOTIFY_BROKER_ROLE_CHANGED: _ADMIN,
    R.CONTROLLER_GET_NEXT_BROKER_ID: Need(_named_cluster("cluster_name", GET)),
    R.CONTROLLER_APPLY_BROKER_ID: Need(_named_cluster("cluster_name", UPDATE)),
    R.CONTROLLER_GET_METADATA_INFO: _READS,
    R.CONTROLLER_GET_SYNC_STATE_DATA: _READS,
    R.UPDATE_CONTROLLER_CONFIG: _CHANGES,
    R.GET_CONTROLLER_CONFIG: _READS,
    R.CLEAN_BROKER_DATA: Need(_named_cluster("cluster_name", UPDATE)),
    # Users and policies.
    **dict.fromkeys((R.AUTH_CREATE_USER, R.AUTH_UPDATE_USER, R.AUTH_DELETE_USER), _ADMIN),
    **dict.fromkeys((R.AUTH_CREATE_ACL, R.AUTH_UPDATE_ACL, R.AUTH_DELETE_ACL), _ADMIN),
    **dict.fromkeys((R.AUTH_GET_USER, R.AUTH_LIST_USER, R.AUTH_GET_ACL, R.AUTH_LIST_ACL), Need(_CLUSTER_GET)),
    # The nameserver. Apache's checks nothing; these follow the annotations of its requests.
    R.GET_ROUTEINFO_BY_TOPIC: Need(_route),
    R.GET_BROKER_CLUSTER_INFO: _KNOWN,
    R.REGISTER_BROKER: Need(_named_cluster("cluster_name", UPDATE)),
    R.UNREGISTER_BROKER: Need(_named_cluster("cluster_name", UPDATE)),
    R.QUERY_DATA_VERSION: Need(_named_cluster("cluster_name", GET)),
    R.BROKER_HEARTBEAT: Need(_named_cluster("cluster_name", UPDATE)),
    R.GET_BROKER_MEMBER_GROUP: Need(_named_cluster("cluster_name", GET)),
    R.REGISTER_TOPIC_IN_NAMESRV: _ADMIN,
    R.DELETE_TOPIC_IN_NAMESRV: Need(_named_cluster("cluster_name", UPDATE)),
    R.WIPE_WRITE_PERM_OF_BROKER: _ADMIN,
    R.ADD_WRITE_PERM_OF_BROKER: _ADMIN,
    R.PUT_KV_CONFIG: _ADMIN,
    R.GET_KV_CONFIG: Need(_CLUSTER_GET),
    R.DELETE_KV_CONFIG: _ADMIN,
    R.GET_KVLIST_BY_NAMESPACE: Need(_CLUSTER_GET),
    R.UPDATE_NAMESRV_CONFIG: _ADMIN,
    R.GET_NAMESRV_CONFIG: Need(_CLUSTER_GET),
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


class HotNames:
    """The header fields on which the decision about a hot request depends besides user and address: ``of`` reads them
    from the typed header; ``ext_names`` are their names on the wire, in the same order."""

    def __init__(self, code: int, fields: tuple[str, ...]):
        written = {field: name for name, field in ext_names(REQUEST_HEADERS[code])}
        self.of: Callable[[Any], object] = attrgetter(*fields)
        self.ext_names = [written[field] for field in fields]


HOT_NAMES = {int(code): HotNames(code, need.names) for code, need in NEEDS.items() if need.names}
