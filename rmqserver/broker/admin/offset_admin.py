"""Committed offsets, for tools and replicas: which groups consume which topics, cloning, correcting, and the whole
tables (``AdminBrokerProcessor``, 5.5.0). Resets are in ``reset_offset.py``, lags in ``consume_stats.py``."""

from __future__ import annotations

from typing import Any, Protocol

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import TopicList
from rmqproto.bodies.statistics import CorrectionOffsets, DelayOffsets, GroupList, SubscriptionAnswer
from rmqproto.headers.statistics import CloneGroupOffsetHeader, CorrectionOffsetHeader
from rmqserver.broker.clients.clients import Clients
from rmqserver.broker.own_address import OwnAddress
from rmqserver.broker.tables.consumer_offsets import SEPARATOR, ConsumerOffsets
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.operation import Peer
from rmqserver.store.message_store import MessageStore

NEVER = 2**63 - 1
"""The correction of a queue in which the compared group is behind all others."""


class DelayProgress(Protocol):
    """How far each delay level has been delivered."""

    data_version: DataVersion

    @property
    def offsets(self) -> dict[int, int]:
        """Next queue offset by delay level."""
        ...


class OffsetAdmin:
    def __init__(
        self, store: MessageStore, topics: TopicTable, offsets: ConsumerOffsets, clients: Clients, address: OwnAddress,
        delay: DelayProgress,
    ):  # fmt: skip
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._store = store
        self._address = address
        self._delay = delay

    def groups_of_topic(self, topic: str) -> GroupList:
        """Groups that are online and subscribe, and groups that have offsets."""
        groups = dict.fromkeys([*self._clients.groups_subscribed_to(topic), *self._offsets.groups_of(topic)])
        return GroupList(group_list=list(groups))

    def topics_of_group(self, group: str, peer: Peer) -> TopicList:
        return TopicList(topic_list=self._offsets.topics_of(group), broker_addr=self._address.address(peer))

    def subscription(self, group: str, topic: str | None) -> SubscriptionAnswer:
        found = self._clients.subscription(group, topic or "")
        return SubscriptionAnswer(group=group, topic=topic, subscription_data=found)

    def clone(self, header: CloneGroupOffsetHeader) -> None:
        """Clones the offsets of all the group's topics if the request names none; Apache's broker then copies
        nothing."""
        for topic in [header.topic] if header.topic else self._offsets.topics_of(header.src_group):
            if self._topics.get(topic) is None:
                continue
            if not header.offline and self._clients.has_left(header.src_group, topic):
                continue
            for queue_id, queue_offset in self._offsets.queues(header.src_group, topic).items():
                self._offsets.commit(header.dest_group, topic, queue_id, queue_offset)

    def correction(self, header: CorrectionOffsetHeader) -> CorrectionOffsets:
        """By queue: the smallest offset of any group outside ``filter_groups``, or NEVER if that is ahead of the offset
        of ``compare_group``, if there is one."""
        left_out = set((header.filter_groups or "").split(","))
        found: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            if group.partition(SEPARATOR)[0] in left_out:
                continue
            for queue_id, queue_offset in self._offsets.queues(group, header.topic).items():
                if queue_offset >= self._store.min_offset(header.topic, queue_id):
                    found[queue_id] = min(found.get(queue_id, NEVER), queue_offset)
        compared = self._offsets.queues(header.compare_group, header.topic) if header.compare_group is not None else {}
        for queue_id, queue_offset in compared.items():
            if found.get(queue_id, NEVER) > queue_offset:
                found[queue_id] = NEVER
        return CorrectionOffsets(correction_offsets=found)

    def all_offsets(self) -> dict[str, Any]:
        """The whole table, with all keys quoted: an Apache slave cannot skip a table that it does not know if its keys
        are unquoted. With Apache's own master it therefore copies no offsets from the first pull on."""
        document = self._offsets.document()
        pulls = {
            key: {str(queue_id): at for queue_id, at in each.items()}
            for key, each in document["pullOffsetTable"].items()
        }
        return dict(sorted((document | {"pullOffsetTable": pulls}).items()))

    def delay_offsets(self) -> DelayOffsets:
        return DelayOffsets(data_version=self._delay.data_version, offset_table=dict(self._delay.offsets))
