"""Committed offsets, for tools and replicas: which groups consume which topics, cloning, correcting, and the whole
tables (``AdminBrokerProcessor``, 5.5.0). Resets are in ``reset_offset.py``, lags in ``consume_stats.py``."""

from __future__ import annotations

from typing import Any, Protocol

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import TopicList
from rmqproto.bodies.statistics import CorrectionOffsets, DelayOffsets, GroupList, SubscriptionAnswer
from rmqproto.codes import RequestCode
from rmqproto.headers.statistics import CloneGroupOffsetHeader, CorrectionOffsetHeader
from rmqproto.headers.tables import GroupHeader, SubscriptionQueryHeader, TopicHeader
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.tables.offsets import SEPARATOR
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler

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
    def __init__(self, parts: BrokerParts, delay: DelayProgress):
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._store = parts.store
        self._address = parts.address
        self._delay = delay

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.groups_of_topic,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of_group,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
            RequestCode.QUERY_CORRECTION_OFFSET: self.correction,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delay_offsets,
        }

    def groups_of_topic(self, request: Request[TopicHeader], connection: Connection) -> bytes:
        """Groups that are online and subscribe, and groups that have offsets."""
        topic = request.header.topic
        groups = dict.fromkeys([*self._clients.groups_subscribed_to(topic), *self._offsets.groups_of(topic)])
        return success(request, body=dumps(GroupList(group_list=list(groups))))

    def topics_of_group(self, request: Request[GroupHeader], connection: Connection) -> bytes:
        topics = self._offsets.topics_of(request.header.group)
        return success(request, body=dumps(TopicList(topic_list=topics, broker_addr=self._address.address(connection))))

    def subscription(self, request: Request[SubscriptionQueryHeader], connection: Connection) -> bytes:
        group, topic = request.header.group, request.header.topic
        found = self._clients.subscription(group, topic or "")
        body = SubscriptionAnswer(group=group, topic=topic, subscription_data=found)
        return success(request, body=dumps(body))

    def clone(self, request: Request[CloneGroupOffsetHeader], connection: Connection) -> bytes:
        """Clones the offsets of all the group's topics if the request names none; Apache's broker then copies
        nothing."""
        header = request.header
        for topic in [header.topic] if header.topic else self._offsets.topics_of(header.src_group):
            if self._topics.get(topic) is None:
                continue
            if not header.offline and self._clients.has_left(header.src_group, topic):
                continue
            for queue_id, queue_offset in self._offsets.queues(header.src_group, topic).items():
                self._offsets.commit(header.dest_group, topic, queue_id, queue_offset)
        return success(request)

    def correction(self, request: Request[CorrectionOffsetHeader], connection: Connection) -> bytes:
        """By queue: the smallest offset of any group outside ``filter_groups``, or NEVER if that is ahead of the offset
        of ``compare_group``, if there is one."""
        header = request.header
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
        return success(request, body=dumps(CorrectionOffsets(correction_offsets=found)))

    def all_offsets(self, request: Request[Any], connection: Connection) -> bytes:
        """The whole table, with all keys quoted: an Apache slave cannot skip a table that it does not know if its keys
        are unquoted. With Apache's own master it therefore copies no offsets from the first pull on."""
        document = self._offsets.document()
        pulls = {
            key: {str(queue_id): at for queue_id, at in each.items()}
            for key, each in document["pullOffsetTable"].items()
        }
        return success(request, body=dumps(dict(sorted((document | {"pullOffsetTable": pulls}).items()))))

    def delay_offsets(self, request: Request[Any], connection: Connection) -> bytes:
        body = DelayOffsets(data_version=self._delay.data_version, offset_table=dict(self._delay.offsets))
        return success(request, body=dumps(body))
