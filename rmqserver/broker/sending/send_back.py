"""Messages that are sent back: a consumer could not process a message. It comes back to the group later through the
retry topic, and after too many times goes to the group's DLQ (``AbstractSendMessageProcessor``, 5.5.0)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import PERM_WRITE, ResponseCode
from rmqproto.headers.sending import SendBackHeader
from rmqproto.java.java_numbers import INT_MAX
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.message.sys_flag import UNIT_SUBSCRIBED
from rmqproto.names import retry_topic
from rmqproto.pop import normal_topic
from rmqserver.broker.sending.put import Put
from rmqserver.broker.sending.rewrites import times_max, to_dead_letters
from rmqserver.operation import SEE_FAQ, Refused
from rmqserver.store.new_message import copy_for
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.sending.pending import OnDone
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer
    from rmqserver.store.message_store import MessageStore

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry, 10 s; each later one waits a level longer."""


class Returned(NamedTuple):
    """A message that comes back, and the group that it comes back to."""

    group: SubscriptionGroupConfig
    message: StoredMessage


class SendBacks:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable, stats: BrokerStats,
        address: OwnAddress, put: Put,
    ):  # fmt: skip
        self._store = store
        self._groups = groups
        self._config = config
        self._address = address
        self._topics = topics
        self._stats = stats
        self._put = put

    def load(self, header: SendBackHeader, peer: Peer) -> Returned | None:
        """What comes back; None if the group keeps nothing for another time. It may wait for the device. Raises Refused
        if nothing can come back."""
        group = self._groups.find(header.group)
        if group is None:
            text = f"subscription group not exist, {header.group} {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        if not self._config.broker_permission & PERM_WRITE:
            own_ip = self._address.ip(peer.local_addr)
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{own_ip}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return None
        record = self._store.get_record(header.offset)
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
        return Returned(group, decode_record_untrusted(record))

    def put(
        self, header: SendBackHeader, returned: Returned, client_version: int, peer: Peer, on_done: OnDone | None
    ) -> None:
        """Puts a copy of the message into this round. ``on_done`` is called once, when it is safe or lost: the consumer
        commits past the message then, so in sync mode it waits for the flush. Raises Refused."""
        group, message = returned
        topic, queue_id = self._retry_queue(header, group)
        properties = props.parse_untrusted(message.properties_raw)
        properties.setdefault(props.RETRY_TOPIC, normal_topic(message.topic, header.group))
        properties[props.WAIT] = "false"
        copy = copy_for(message, topic, queue_id, properties)
        copy.store_host = self._address.record_host(peer)
        copy.reconsume_times = min(copy.reconsume_times + 1, INT_MAX)
        times = times_max(group, client_version, header.max_reconsume_times)
        if header.delay_level < 0 or message.reconsume_times >= times:
            to_dead_letters(copy, header.group, self._topics)
        else:
            level = header.delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
            copy.properties[props.DELAY] = str(level)
        if not copy.properties.get(props.ORIGIN_MESSAGE_ID, "").strip():
            copy.properties[props.ORIGIN_MESSAGE_ID] = message.message_id
        try:
            self._put.put(copy)
        except MessageRefused as refused:
            raise Refused(ResponseCode.SYSTEM_ERROR, refused.status.value) from None
        self._stats.add("SNDBCK_PUT_NUMS", f"{properties[props.RETRY_TOPIC]}@{header.group}")
        if on_done is not None:
            self._put.when_stored({}, on_done)

    def _retry_queue(self, header: SendBackHeader, group: SubscriptionGroupConfig) -> tuple[str, int]:
        topic = retry_topic(header.group)
        flag = UNIT_SUBSCRIBED if header.unit_mode else 0
        config = self._topics.create_system(topic, group.retry_queue_nums, topic_sys_flag=flag)
        if not config.perm & PERM_WRITE:
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        return topic, random.randrange(group.retry_queue_nums)
