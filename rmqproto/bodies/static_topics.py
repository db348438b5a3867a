"""Bodies about static topics: the mapping of logical queues to queues of brokers. Logical offsets count through all
queues that a logical queue has been on; other offsets are queue offsets. Times are ms since 1970, -1 for none."""

from __future__ import annotations

from rmqproto.bodies.base import Body
from rmqproto.bodies.routes import TopicConfig
from rmqproto.java.java_numbers import Int32, Int64

GLOBAL_SCOPE = "__global__"


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
