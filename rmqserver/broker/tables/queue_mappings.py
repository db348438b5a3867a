"""Static topics: which logical queue of a topic is which queue of this broker (``TopicQueueMappingManager``, 5.5.0).
Kept in ``config/topicQueueMapping.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rmqproto import queue_mapping
from rmqproto.bodies.static_topics import LogicQueueMappingItem, TopicQueueMappingDetail, TopicQueueMappingInfo
from rmqproto.codes import ResponseCode
from rmqserver.broker.tables.config_table import ConfigTable
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles

NOT_HERE = "%s-%d does not exit in request process of current broker %s"
"""To be filled with topic, logical queue and our name, in Apache's words and spelling."""


class QueueMappings(ConfigTable[TopicQueueMappingDetail]):
    """Mappings by topic. ``all`` is empty on a broker without static topics, which costs a request one look."""

    def __init__(self, config: BrokerConfig, files: ConfigFiles, clock_ms: Callable[[], int]):
        super().__init__(files, "topicQueueMapping.json", "topicQueueMappingInfoMap", TopicQueueMappingDetail, clock_ms)
        self._broker_name = config.broker_name

    def put(self, detail: TopicQueueMappingDetail) -> None:
        """Creates or replaces a mapping."""
        self.put_entry(detail.topic, detail)

    def items(self, topic: str, logical_id: int, text: str = NOT_HERE) -> list[LogicQueueMappingItem]:
        """The mapping items of a logical queue that is here now. Raises Refused with 501, in the words of ``text``, if
        not."""
        detail = self._entries[topic]
        items = detail.hosted_queues.get(logical_id)
        if not items or items[-1].bname != self._broker_name:
            raise Refused(ResponseCode.NOT_LEADER_FOR_QUEUE, text % (topic, logical_id, self._broker_name))
        return items

    def is_here(self, item: LogicQueueMappingItem) -> bool:
        """Whether the item's messages are on this broker, and not on one where the queue was before."""
        return item.bname == self._broker_name

    def infos(self) -> Mapping[str, TopicQueueMappingInfo]:
        """What the nameservers are told, by topic."""
        return {topic: queue_mapping.registered(detail) for topic, detail in self._entries.items()}


def is_physical(logical: str | None) -> bool:
    """Whether a request says with ``lo`` that its queue is a physical one of this broker, as one broker asks
    another."""
    return logical is not None and logical.lower() != "true"
