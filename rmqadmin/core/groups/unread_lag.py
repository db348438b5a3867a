"""What groups have left in queues that consumers do not read. Brokers report lag only for the topics' read queues, so
that a topic that was given fewer of them seems to be consumed."""

from collections.abc import Mapping, Sequence
from threading import Lock

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.topics.stored_queues import UnreadQueue, unread_queues
from rmqadmin.core.topics.topic_config import read_topic
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, TopicConfig
from rmqproto.bodies.statistics import ConsumeOffset, TopicOffset, unread_offset
from rmqproto.errors import RocketMQError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX

_ONE_BY_ONE_MAX = 8
"""For more groups all topics of a broker are read at once."""

_SEARCHED_MAX = 64
"""For so many topics queues past the counts are looked for; of others only those in which some group has an offset are
known."""

_AT_SEPARATOR = "@"


class UnreadQueueLag(msgspec.Struct, frozen=True):
    """One queue, and where the group stands there."""

    queue: MessageQueue
    broker_addr: str
    entry: ConsumeOffset


class UnreadLags:
    """Reads for many groups; each broker is asked for all offsets once. Any thread may use it. ``problem``: why what
    groups have left is not known on some broker."""

    def __init__(self, admin: AdminClient, group_count: int = 1):
        self._admin = admin
        self._reads_all = group_count > _ONE_BY_ONE_MAX
        self._lock = Lock()
        self._offsets: dict[str, dict[str, dict[str, Mapping[int, int]]]] = {}
        """Offsets by queue id, by address, topic and group."""
        self._configs: dict[str, Mapping[str, TopicConfig]] = {}
        self.problem: str | None = None
        self._searched_count = 0
        self._queues: dict[tuple[str, str], list[UnreadQueue]] = {}

    def read(self, group: str, brokers: Sequence[BrokerData], topic: str | None = None) -> list[UnreadQueueLag]:
        """The queues with messages that the group has not consumed, sorted; with ``topic``, only that one's. Brokers
        that do not answer, or refuse, are taken to have none."""
        found: list[UnreadQueueLag] = []
        for broker in brokers:
            addr = broker.selected_addr()
            if addr is None:
                continue
            try:
                for name, by_group in self._offsets_on(addr).items():
                    if group in by_group and topic in (None, name):
                        found += self._of_topic(broker.broker_name, addr, name, by_group[group])
            except RocketMQError as error:
                self.problem = f"queues that consumers do not read are not known on {broker.broker_name}: {error}"
        return sorted(found, key=lambda one: one.queue)

    def _offsets_on(self, addr: str) -> Mapping[str, Mapping[str, Mapping[int, int]]]:
        with self._lock:  # so that one thread asks for all
            if addr not in self._offsets:
                of_broker = self._offsets[addr] = {}  # a broker that fails is not asked again for the next group
                for key, offsets in self._admin.all_consumer_offsets(addr).offset_table.items():
                    topic, _, group = key.partition(_AT_SEPARATOR)
                    if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                        of_broker.setdefault(topic, {})[group] = offsets
        return self._offsets[addr]

    def _of_topic(self, broker_name: str, addr: str, topic: str, committed: Mapping[int, int]) -> list[UnreadQueueLag]:
        found = []
        for one in self._unread(broker_name, addr, topic):
            ends = TopicOffset(min_offset=one.min_offset, max_offset=one.max_offset)
            entry = unread_offset(committed.get(one.queue.queue_id), ends)
            if entry is not None:
                found.append(UnreadQueueLag(one.queue, addr, entry))
        return found

    def _unread(self, broker_name: str, addr: str, topic: str) -> list[UnreadQueue]:
        """The topic's unread queues on a broker, which are the same for each of its groups."""
        with self._lock:
            found = self._queues.get((addr, topic))
            is_searched = self._searched_count < _SEARCHED_MAX
            self._searched_count += found is None
        if found is None:
            config, found = self._config(addr, topic), []
            known = {each for offsets in self._offsets[addr][topic].values() for each in offsets}
            if config is not None:
                found = unread_queues(self._admin, broker_name, addr, config, known, is_searched=is_searched)
            with self._lock:
                self._queues[addr, topic] = found
        return found

    def _config(self, addr: str, topic: str) -> TopicConfig | None:
        if not self._reads_all:
            return read_topic(self._admin, addr, topic)
        with self._lock:
            if addr not in self._configs:
                self._configs[addr] = self._admin.all_topics(addr).topic_config_table
        return self._configs[addr].get(topic)
