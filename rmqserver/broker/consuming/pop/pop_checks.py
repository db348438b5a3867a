"""The checks before a group pops, in Apache's order and words (``PopMessageProcessor``, ``PeekMessageProcessor``,
5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import PERM_READ, ResponseCode
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.filters.subscription import ALL
from rmqproto.headers.popping import NotificationHeader, PopHeader, PopLiteHeader
from rmqserver.broker.consuming.filters import NOT_PARSED
from rmqserver.broker.consuming.lite_subscriptions import BIND_TOPIC
from rmqserver.broker.consuming.lite_topics import is_lite
from rmqserver.broker.tables.consumer_filters import is_tags
from rmqserver.operation import SEE_FAQ, Refused

if TYPE_CHECKING:
    from rmqserver.broker.consuming.filters import Filters
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer

POP_COUNT_MAX = 32
"""The most messages of one pop: a check point has one bit for each."""

LATE_MAX_MS = 500
"""A pop that is older than its waiting time by more than this is refused: nobody waits for its answer."""


class PopChecks:
    """Each check raises Refused if nothing may be popped."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, groups: GroupTable, address: OwnAddress, filters: Filters,
        clock_ms: Callable[[], int],
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._groups = groups
        self._address = address
        self._filters = filters
        self._clock_ms = clock_ms

    def pop(self, header: PopHeader, peer: Peer) -> None:
        """The checks that only 200050 makes, before all others."""
        self.in_time(header.born_time, header.poll_time, header.max_msg_nums, peer)
        if not self._config.timer_wheel_enable:
            text = "pop message is forbidden because timerWheelEnable is false"
            raise self._refused(ResponseCode.SYSTEM_ERROR, text, peer)

    def in_time(self, born_ms: int, poll_ms: int, count: int, peer: Peer) -> None:
        """The first checks of every pop, of lite topics, too."""
        problem = None
        if born_ms and self._clock_ms() - born_ms - poll_ms > LATE_MAX_MS:
            problem = ResponseCode.POLLING_TIMEOUT, "pop message is timeout too much"
        elif not self._config.broker_permission & PERM_READ:
            problem = ResponseCode.NO_PERMISSION, "pop message is forbidden"
        elif count > POP_COUNT_MAX:
            problem = ResponseCode.INVALID_PARAMETER, f"pop message's num is greater than {POP_COUNT_MAX}"
        if problem is not None:
            raise self._refused(*problem, peer)

    def _refused(self, code: ResponseCode, what: str, peer: Peer) -> Refused:
        return Refused(code, f"the broker[{self._address.ip(peer.local_addr)}] {what}")

    def lite_pop(self, header: PopLiteHeader, peer: Peer) -> None:
        """The checks of 200070 (``PopLiteMessageProcessor``)."""
        self.in_time(header.born_time, header.poll_time, header.max_msg_num, peer)
        topic, group_name = self._topics.get(header.topic), header.consumer_group
        if topic is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic [{header.topic}] not exist, apply first please! {SEE_FAQ}"
            )
        if not topic.perm & PERM_READ:
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic [{header.topic}] peeking message is forbidden")
        if not is_lite(topic):
            raise Refused(ResponseCode.INVALID_PARAMETER, f"the topic [{header.topic}] message type not match")
        group = self._groups.find(group_name)
        if group is None:
            text = f"subscription group [{group_name}] not exist, {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        if not group.consume_enable:
            raise Refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group_name}")
        if group.attributes.get(BIND_TOPIC) != header.topic:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"subscription bind topic not match, {group_name}")

    def peek(self, peer: Peer) -> None:
        """The first check of 200052, 200054 and 200055."""
        if not self._config.broker_permission & PERM_READ:
            raise self._refused(ResponseCode.NO_PERMISSION, "peeking message is forbidden", peer)

    def topic_and_group(self, topic_name: str, queue_id: int, group_name: str, peer: str) -> TopicConfig:
        """Checks topic, queue and group. Creates the group if that is allowed."""
        topic = self._topics.get(topic_name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, _no_topic(topic_name))
        if not topic.perm & PERM_READ:
            text = f"the topic[{topic_name}] peeking message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, text)
        if queue_id >= topic.read_queue_nums:
            raise Refused(ResponseCode.INVALID_PARAMETER, _bad_queue(queue_id, topic, peer))
        group = self._groups.find(group_name)
        if group is None:
            text = f"subscription group [{group_name}] does not exist, {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        if not group.consume_enable:
            text = f"subscription group no permission, {group_name}"
            raise Refused(ResponseCode.NO_PERMISSION, text)
        return topic

    def acked_queue(self, topic_name: str, queue_id: int, peer: str) -> None:
        """The checks of 200051 and 200053."""
        topic = self._topics.get(topic_name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, _no_topic(topic_name))
        if not 0 <= queue_id < topic.read_queue_nums:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, _bad_queue(queue_id, topic, peer))

    def wanted(self, header: PopHeader | NotificationHeader) -> MessageFilter:
        """The filter of a 200050 or 200054. Raises Refused with 23 for an expression that does not compile."""
        kind, expression = header.exp_type if header.exp else None, header.exp or ALL
        try:
            if not is_tags(kind):
                self._filters.check_expression(kind, expression)
            return self._filters.carried(kind, expression)
        except Refused as refused:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, NOT_PARSED) from refused


def _no_topic(topic: str) -> str:
    return f"topic[{topic}] not exist, apply first please! {SEE_FAQ}"


def _bad_queue(queue_id: int, topic: TopicConfig, peer: str) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer}]"
    )
