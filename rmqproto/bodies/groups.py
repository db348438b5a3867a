"""Bodies about consumer groups, their members and subscriptions."""

from __future__ import annotations

from typing import Any

import msgspec

from rmqproto.bodies.base import Body, DataVersion, MessageQueue
from rmqproto.java.java_numbers import Int32, Int64

CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
"""The consumeType of consumers that ask for messages themselves and have no listener."""
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
"""The consumeType of consumers that have a listener."""
CONSUME_POP = "CONSUME_POP"


class GroupRetryPolicy(Body, kw_only=True):
    """The delays between retries for POP and the proxy. Remoting push consumers ignore it."""

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
    """A group's subscription to a topic. ``code_set`` comes as numbers, text or zeros, depending on the client. Never
    use it: compute the hashes from ``tags_set``."""

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
    consume_type: str | Int32 = CONSUME_PASSIVELY
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


class ClientConnection(Body, kw_only=True):
    """One online client."""

    client_addr: str
    client_id: str
    language: str | None = None
    version: Int32 = 0


class ConsumerConnection(Body, kw_only=True):
    connection_set: list[ClientConnection] = []
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionData] = {}


class ProducerConnection(Body, kw_only=True):
    connection_set: list[ClientConnection] = []


class ProducerInfo(Body, kw_only=True):
    client_id: str
    language: str | None = None
    last_update_timestamp: Int64 = 0
    remote_ip: str = msgspec.field(default="", name="remoteIP")
    version: Int32 = 0


class ProducerTable(Body, kw_only=True):
    """Producer groups to their clients: answer of 328."""

    data: dict[str, list[ProducerInfo]] = {}
