"""Bodies about routes, brokers and topics."""

from __future__ import annotations

from typing import Any

import msgspec

from rmqproto.bodies.base import Body, DataVersion
from rmqproto.ha import MASTER_ID
from rmqproto.java.java_numbers import Int32, Int64


class BrokerData(Body, kw_only=True):
    """A broker name's addresses by broker id; the master's is ``MASTER_ID``."""

    broker_addrs: dict[Int64, str]
    broker_name: str
    cluster: str | None = None
    enable_acting_master: bool = False
    zone_name: str | None = None

    @property
    def master_addr(self) -> str | None:
        return self.broker_addrs.get(MASTER_ID)

    def selected_addr(self) -> str | None:
        """The master's address, or else that of any replica."""
        return self.master_addr or next(iter(self.broker_addrs.values()), None)


class QueueData(Body, kw_only=True):
    """A topic's queues on one broker. ``perm``: 4 read, 2 write, 1 inherit."""

    broker_name: str
    perm: Int32
    read_queue_nums: Int32
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32


class TopicRoute(Body, kw_only=True):
    """``TopicRouteData``: a topic's queues and their brokers."""

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    topic_queue_mapping_by_broker: dict[str, Any] | None = None


class DisplacedBroker(Body, kw_only=True):
    """A displaced broker. It has no integer keys: Apache's clients do not know this body, and cannot skip such keys."""

    broker_addr: str
    broker_id: Int64
    broker_name: str
    cluster: str


class ClusterInfo(Body, kw_only=True):
    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}
    displaced_brokers: list[DisplacedBroker] | None = None
    """Our extension, None without such brokers: live brokers whose name and id belong to another that registered
    later."""


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


QUEUE_NUMS_MAX = 16_384
"""Queues of one topic on a broker of ours; Apache's takes any number. Every tool that shows a topic asks for every
queue."""


class TopicConfig(Body, kw_only=True, gc=False):
    """A topic as the broker keeps it. Unknown ``attributes`` are kept."""

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
    topic_queue_mapping_info_map: dict[str, dict[str, Any]] | None = None


class RegisterBrokerBody(Body, kw_only=True):
    filter_server_list: list[str] = []
    topic_config_serialize_wrapper: TopicConfigs = msgspec.field(default_factory=TopicConfigs)


# --- static topics ---------------------------------------------------------------------------------------------------


GLOBAL_SCOPE = "__global__"


# Logical offsets count through all queues that a logical queue has been on; other offsets are queue offsets. Times are
# ms since 1970, -1 for none.


class LogicQueueMappingItem(Body, kw_only=True):
    """One stay of a logical queue: generation ``gen`` is on queue ``queue_id`` of broker ``bname``, whose offset
    ``start_offset`` equals the logical ``logic_offset`` (-1: not decided). ``end_offset`` is -1 if the stay has not
    ended."""

    bname: str
    end_offset: Int64 = -1
    gen: Int32 = 0
    logic_offset: Int64 = 0
    queue_id: Int32
    start_offset: Int64 = 0
    time_of_end: Int64 = -1
    time_of_start: Int64 = -1


class TopicQueueMappingInfo(Body, kw_only=True):
    """The part that is sent to nameservers: ``curr_id_map`` has the queues of this broker by logical queue."""

    bname: str
    curr_id_map: dict[Int32, Int32] = {}
    dirty: bool = False
    epoch: Int64 = 0
    scope: str = GLOBAL_SCOPE
    topic: str
    total_queues: Int32 = 0


class TopicQueueMappingDetail(Body, kw_only=True):
    """Body of 513, and an entry of topicQueueMapping.json. ``hosted_queues``: the stays of each logical queue that is
    or was on this broker. The last stay leads."""

    bname: str
    curr_id_map: dict[Int32, Int32] = {}
    dirty: bool = False
    epoch: Int64 = 0
    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = {}
    scope: str = GLOBAL_SCOPE
    topic: str
    total_queues: Int32 = 0


class TopicConfigAndQueueMapping(TopicConfig, kw_only=True):
    """Answer of 351 with ``lo``."""

    mapping_detail: TopicQueueMappingDetail | None = None


class TopicRemappingDetail(Body, kw_only=True):
    """``TopicRemappingDetailWrapper``: the file in which a tool keeps a topic's mappings before and after a change, by
    broker name."""

    broker_config_map: dict[str, TopicConfigAndQueueMapping] = {}
    broker_to_map_in: list[str] = []
    broker_to_map_out: list[str] = []
    epoch: Int64 = 0
    topic: str
    type: str = "CREATE_OR_UPDATE"
