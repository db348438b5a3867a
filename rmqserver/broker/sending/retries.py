"""How often a message is tried, and how it becomes a dead letter (``AbstractSendMessageProcessor.handleRetryAndDLQ``,
5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.codes import FIRST_MAX_RECONSUME_VERSION, ResponseCode
from rmqproto.message import properties as props
from rmqproto.names import RETRY_PREFIX, dlq_topic
from rmqserver.operation import SEE_FAQ, Refused

if TYPE_CHECKING:
    from rmqproto.bodies.groups import SubscriptionGroupConfig
    from rmqserver.broker.clients.locks import QueueLocks
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.store.new_message import NewMessage

DLQ_QUEUE_NUMS = 1


def times_max(group: SubscriptionGroupConfig, client_version: int, asked: int | None) -> int:
    """The group's limit, or the client's own if the client is new enough to have one."""
    if client_version >= FIRST_MAX_RECONSUME_VERSION and asked is not None:
        return asked
    return group.retry_max_times


def to_dead_letters(message: NewMessage, group: str, topics: TopicTable) -> None:
    """Sends the message to the group's dead letters, whose topic is created if it is missing. The message goes to no
    light queue: its group would get it there again."""
    message.topic, message.queue_id = dlq_topic(group), 0
    message.properties[props.DELAY] = "0"
    for name in (props.MULTI_DISPATCH, props.MULTI_QUEUE_OFFSET):
        message.properties.pop(name, None)
    topics.create_system(message.topic, DLQ_QUEUE_NUMS)


class Retries:
    def __init__(self, topics: TopicTable, groups: GroupTable, locks: QueueLocks):
        self._topics = topics
        self._groups = groups
        self._locks = locks

    def bury_if_dead(self, message: NewMessage, client_version: int, asked_times_max: int | None) -> None:
        """Makes a message that a consumer itself sends to its retry topic a dead letter if it was tried too often, or
        if the group consumes in order, where nothing can be retried out of order. Raises Refused with 26 for an unknown
        group."""
        if not message.topic.startswith(RETRY_PREFIX):
            return
        name = message.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(name)
        if group is None:
            text = f"subscription group not exist, {name} {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        is_tried_out = message.reconsume_times > times_max(group, client_version, asked_times_max)
        if is_tried_out or self._locks.is_any_held(name):
            to_dead_letters(message, name, self._topics)
            message.properties[props.DELAY] = "-1"
