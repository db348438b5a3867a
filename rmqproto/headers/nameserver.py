"""Headers of requests to the nameserver."""

from __future__ import annotations

import msgspec

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64


class RouteHeader(Header, kw_only=True):
    """105 GET_ROUTEINFO_BY_TOPIC. The two fields of the zone are what Java's clients add if they are told their zone;
    Java takes every mode but ``true``, in any case, for false."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: str | None = msgspec.field(default=None, name="__ZONE_MODE")
    zone_name: str | None = msgspec.field(default=None, name="__ZONE_NAME")


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
    """904 BROKER_HEARTBEAT, to nameservers. A broker sends the remaining fields only to controllers: its id there, the
    last epoch of its log (-1 for none), log offsets, and its rank in elections, the lowest first. ``takes_messages`` is
    ours: false while its store refuses messages, because its disk is full or has failed; absent otherwise."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None
    takes_messages: bool | None = None


class MemberGroupHeader(Header, kw_only=True):
    """901 GET_BROKER_MEMBER_GROUP."""

    cluster_name: str
    broker_name: str


class MinBrokerIdHeader(Header, kw_only=True):
    """905 NOTIFY_MIN_BROKER_ID_CHANGE (``NotifyMinBrokerIdChangeRequestHeader``, 5.5.0): the broker that now has the
    smallest id of a broker name. ``offline_broker_addr`` is a broker that has gone. For a new broker,
    ``ha_broker_addr`` is the address to which its slaves connect."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class DeleteTopicHeader(Header, kw_only=True):
    """216 DELETE_TOPIC_IN_NAMESRV: for all brokers, or those of one cluster."""

    topic: str
    cluster_name: str | None = None


class BrokerNameHeader(Header, kw_only=True):
    """205 WIPE_WRITE_PERM_OF_BROKER, 327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermAnswer(Header, kw_only=True):
    """The number of topics that 205 found."""

    wipe_topic_count: Int32


class AddWritePermAnswer(Header, kw_only=True):
    """The number of topics that 327 found."""

    add_topic_count: Int32


class ClusterHeader(Header, kw_only=True):
    """224 GET_TOPICS_BY_CLUSTER. Without a cluster there are no topics."""

    cluster: str = ""


class PutKvHeader(Header, kw_only=True):
    """100 PUT_KV_CONFIG. A missing field is refused with a message."""

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
