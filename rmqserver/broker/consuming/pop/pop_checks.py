"""The checks before a group pops, in Apache's order and words (``PopMessageProcessor``, ``PeekMessageProcessor``,
5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.filters.subscription import ALL
from rmqproto.headers.base import Header
from rmqproto.headers.popping import NotificationHeader, PopHeader
from rmqproto.perm import PERM_READ
from rmqserver.broker.consuming.filters import NOT_PARSED
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
    """Each check raises Refused if nothing may be popped; the refusal carries ``refused_header``."""

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

    def pop(self, header: PopHeader, peer: Peer, refused_header: Header) -> None:
        """The checks that only 200050 makes, before all others."""
        self.in_time(header.born_time, header.poll_time, header.max_msg_nums, peer, refused_header)
        if not self._config.timer_wheel_enable:
            text = "pop message is forbidden because timerWheelEnable is false"
            raise self._refused(ResponseCode.SYSTEM_ERROR, text, peer, refused_header)

    def in_time(self, born_ms: int, poll_ms: int, count: int, peer: Peer, refused_header: Header) -> None:
        """The first checks of every pop, of lite topics, too."""
        problem = None
        if born_ms and self._clock_ms() - born_ms - poll_ms > LATE_MAX_MS:
            problem = ResponseCode.POLLING_TIMEOUT, "pop message is timeout too much"
        elif not self._config.broker_permission & PERM_READ:
            problem = ResponseCode.NO_PERMISSION, "pop message is forbidden"
        elif count > POP_COUNT_MAX:
            problem = ResponseCode.INVALID_PARAMETER, f"pop message's num is greater than {POP_COUNT_MAX}"
        if problem is not None:
            raise self._refused(*problem, peer, refused_header)

    def _refused(self, code: ResponseCode, what: str, peer: Peer, refused_header: Header | None) -> Refused:
        return Refused(code, f"the broker[{self._address.ip(peer.local_addr)}] {what}", refused_header)

    def peek(self, peer: Peer, refused_header: Header | None = None) -> None:
        """The first check of 200052, 200054 and 200055."""
        if not self._config.broker_permission & PERM_READ:
            raise self._refused(ResponseCode.NO_PERMISSION, "peeking message is forbidden", peer, refused_header)

    def topic_and_group(
        self, topic_name: str, queue_id: int, group_name: str, peer: str, refused_header: Header | None = None
    ) -> TopicConfig:
        """Checks topic, queue and group. Creates the group if that is allowed."""
        topic = self._topics.get(topic_name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, _no_topic(topic_name), refused_header)
        if not topic.perm & PERM_READ:
            text = f"the topic[{topic_name}] peeking message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, text, refused_header)
        if queue_id >= topic.read_queue_nums:
            raise Refused(ResponseCode.INVALID_PARAMETER, _bad_queue(queue_id, topic, peer), refused_header)
        group = self._groups.find(group_name)
        if group is None:
            text = f"subscription group [{group_name}] does not exist, {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text, refused_header)
        if not group.consume_enable:
            text = f"subscription group no permission, {group_name}"
            raise Refused(ResponseCode.NO_PERMISSION, text, refused_header)
        return topic

    def acked_queue(self, topic_name: str, queue_id: int, peer: str, refused_header: Header | None = None) -> None:
        """The checks of 200051 and 200053."""
        topic = self._topics.get(topic_name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, _no_topic(topic_name), refused_header)
        if not 0 <= queue_id < topic.read_queue_nums:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, _bad_queue(queue_id, topic, peer), refused_header)

    def wanted(self, header: PopHeader | NotificationHeader, refused_header: Header) -> MessageFilter:
        """The filter of a 200050 or 200054. Raises Refused with 23 for an expression that does not compile."""
        kind, expression = header.exp_type if header.exp else None, header.exp or ALL
        try:
            if not is_tags(kind):
                self._filters.check_expression(kind, expression)
            return self._filters.carried(kind, expression)
        except Refused as refused:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, NOT_PARSED, refused_header) from refused


def _no_topic(topic: str) -> str:
    return f"topic[{topic}] not exist, apply first please! {SEE_FAQ}"


def _bad_queue(queue_id: int, topic: TopicConfig, peer: str) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer}]"
    )
