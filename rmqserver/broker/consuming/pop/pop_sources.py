"""Which queues a pop looks at, and in which order (``PopMessageProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.pop import pop_retry_topic
from rmqproto.topic_message_type import MESSAGE_TYPE, TopicMessageType

if TYPE_CHECKING:
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig


class PopSources:
    def __init__(self, config: BrokerConfig, topics: TopicTable, groups: GroupTable):
        self._config = config
        self._topics = topics
        self._groups = groups
        self._turn = 0

    def retry_topics(self, group: str, topic: str) -> list[str]:
        """The POP retry topics to look at that exist."""
        config = self._config
        names = [pop_retry_topic(group, topic, is_v2=config.enable_retry_topic_v2)]
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            names.append(pop_retry_topic(group, topic))
        return [name for name in names if self._topics.get(name) is not None]

    def of(self, group: str, topic: str, queue_id: int, *, with_retries: bool = True) -> list[tuple[str, int]]:
        """Topic and queue id of everything that a pop of the queue (-1: of all) looks at, in order. Queues take turns
        at being the first. In some pops, retries come first (popFromRetryProbability). Of a topic with priorities, the
        queue of the highest comes first in the group's ``priority.factor`` percent of the pops. A pop in order has no
        retries and no priorities."""
        turn, config = self._turn, self._topics.get(topic)
        self._turn += 1
        retry_topics = self.retry_topics(group, topic) if with_retries else []
        if queue_id >= 0 and not retry_topics:
            return [(topic, queue_id)] if config is not None else []
        percent, queues_of = self._config.pop_from_retry_probability, self._queues_of
        is_priority = config is not None and config.attributes.get(MESSAGE_TYPE) == TopicMessageType.PRIORITY
        if with_retries and is_priority and _is_turn(turn, self._priority_percent(group)):
            percent, queues_of = self._config.pop_from_retry_probability_for_priority, self._by_priority
        queues = queues_of(topic, queue_id, turn)
        retries = [source for name in retry_topics for source in queues_of(name, -1, turn)]
        return [*retries, *queues] if _is_turn(turn, percent) else [*queues, *retries]

    def _queues_of(self, topic: str, queue_id: int, turn: int) -> list[tuple[str, int]]:
        config = self._topics.get(topic)
        if config is None:
            return []
        if queue_id >= 0:
            return [(topic, queue_id)]
        queue_nums = config.read_queue_nums
        return [(topic, (turn + number) % queue_nums) for number in range(queue_nums)]

    def _priority_percent(self, group_name: str) -> int:
        group = self._groups.get(group_name)
        return _percent(group.attributes.get("priority.factor", "") if group is not None else "")

    def _by_priority(self, topic: str, queue_id: int, turn: int) -> list[tuple[str, int]]:
        """As ``_queues_of``, but the queue of the highest priority comes first."""
        queues = sorted(self._queues_of(topic, queue_id, turn))
        return queues[::-1] if self._config.priority_order_asc else queues


def _is_turn(turn: int, percent: int) -> bool:
    """True in so many of a hundred turns, evenly spread."""
    return (turn + 1) * percent // 100 > turn * percent // 100


def _percent(text: str) -> int:
    """The percentage in a text; 100 if it is none, since a file may say anything."""
    return int(text) if text.isdecimal() and len(text) <= 3 and int(text) <= 100 else 100
