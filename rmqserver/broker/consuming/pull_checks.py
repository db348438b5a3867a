"""The checks before a group reads a queue, in Apache's order and words (``PullMessageProcessor``, 5.5.0).

For a pull of a lite topic (ext field ``liteTopic`` of 11 and 361), the parent topic decides who may pull; the messages
are those of the light queue. So are the offsets, and resets of the group: Apache's broker counts them for the parent's
queue, where they would mean other messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.groups import CONSUME_ACTIVELY
from rmqproto.codes import ResponseCode
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.headers.base import Header
from rmqproto.headers.consuming import PULL_LITE, PULL_SUBSCRIPTION, PullHeader
from rmqproto.names import is_system_group, lite_queue_name
from rmqproto.perm import PERM_READ
from rmqserver.operation import SEE_FAQ, Refused

if TYPE_CHECKING:
    from rmqproto.bodies.groups import SubscriptionGroupConfig
    from rmqproto.bodies.routes import TopicConfig
    from rmqserver.broker.clients.clients import Clients
    from rmqserver.broker.consuming.filters import Filters
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig

# Values of forbiddenType.
_BROKER, _GROUP, _TOPIC, _BROADCAST, _SUBSCRIPTION = 1, 2, 3, 4, 5


class ForbiddenAnswer(Header, kw_only=True):
    """Says who forbids a pull."""

    forbidden_type: int


def forbidden(remark: str, who: int) -> Refused:
    return Refused(ResponseCode.NO_PERMISSION, remark, ForbiddenAnswer(forbidden_type=who))


class ReadChecks:
    """Each check raises Refused if nothing may be read. ``local_addr`` and ``address`` are our end and the asker's end
    of the connection, for remarks."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, groups: GroupTable, clients: Clients, address: OwnAddress,
        filters: Filters,
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._address = address
        self._filters = filters

    def broker(self, header: PullHeader, *, is_lite: bool, local_addr: str) -> None:
        config = self._config
        if not config.broker_permission & PERM_READ:
            own_ip = self._address.ip(local_addr)
            raise forbidden(f"the broker[{own_ip}] pulling message is forbidden", _BROKER)
        if (is_lite or header.sys_flag & PULL_LITE) and not config.lite_pull_message_enable:
            own_ip = self._address.ip(local_addr)
            raise forbidden(f"the broker[{own_ip}] for lite pull consumer is forbidden", _BROKER)

    def group_and_topic(
        self, group_name: str, topic_name: str, queue_id: int, address: str
    ) -> tuple[SubscriptionGroupConfig, TopicConfig]:
        """The group and the topic. Creates the group if that is allowed."""
        group = self._groups.find(group_name)
        if group is None:
            text = f"subscription group [{group_name}] does not exist, {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        if not group.consume_enable:
            raise forbidden(f"subscription group no permission, {group_name}", _GROUP)
        topic = self._topics.get(topic_name)
        if topic is None:
            text = f"topic[{topic_name}] not exist, apply first please! {SEE_FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, text)
        if not topic.perm & PERM_READ:
            raise forbidden(f"the topic[{topic_name}] pulling message is forbidden", _TOPIC)
        if not 0 <= queue_id < topic.read_queue_nums:
            text = (
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{address}]"
            )
            raise Refused(ResponseCode.INVALID_PARAMETER, text)
        return group, topic

    def wanted(self, header: PullHeader, group: SubscriptionGroupConfig) -> MessageFilter:
        """The pull's filter: from the pull itself, or from the heartbeats of its group."""
        name, topic = header.consumer_group, header.topic
        if header.sys_flag & PULL_SUBSCRIPTION:
            filter_ = self._filters.carried(header.expression_type, header.subscription)
            self._clients.note_carried(name, topic, header.expression_type, header.subscription)
            return filter_
        online = self._clients.consumers.get(name)
        if online is None:
            text = f"the consumer's group info not exist{SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        if online.is_broadcasting and not group.consume_broadcast_enable:
            raise forbidden(f"the consumer group[{name}] can not consume by broadcast way", _BROADCAST)
        if self._groups.is_forbidden(name, topic):
            raise forbidden(f"the consumer group[{name}] is forbidden for topic[{topic}]", _SUBSCRIPTION)
        subscription = online.subscriptions.get(topic)
        if subscription is None:
            text = f"the consumer's subscription not exist{SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        if subscription.sub_version < header.sub_version:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return self._filters.subscribed(online, subscription, header.sub_version)

    def not_kept_out(self, group: str, address: str) -> None:
        """For ``rejectPullConsumerEnable``: whoever pulls must be a member of its group, which no consumer without a
        listener becomes then, or the group must have listeners."""
        online = self._clients.consumers.get(group)
        if online is not None and online.consume_type != CONSUME_ACTIVELY:
            return
        is_member = online is not None and any(member.address == address for member in online.members)
        if not is_member and not is_system_group(group):
            text = f"the consumer's group info not exist, or the pull consumer is rejected by server.{SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)

    def at_light_queue(self, header: PullHeader, peer: str) -> PullHeader:
        """A pull of a lite topic as one of the light queue by its name. It carries the group's subscription to the
        parent. ``peer`` is for remarks."""
        assert header.lite_topic
        group, _ = self.group_and_topic(header.consumer_group, header.topic, header.queue_id, peer)
        self.wanted(header, group)
        light = msgspec.structs.replace(header, topic=lite_queue_name(header.topic, header.lite_topic), lite_topic=None)
        if not header.sys_flag & PULL_SUBSCRIPTION:
            subscription = self._clients.consumers[header.consumer_group].subscriptions[header.topic]
            light.sys_flag |= PULL_SUBSCRIPTION
            light.subscription, light.expression_type = subscription.sub_string, subscription.expression_type
        return light
