"""CONSUMER_SEND_MSG_BACK (36): a consumer could not deal with a message. It comes back to the group later, through its
retry topic, and after too many times goes to the group's DLQ (``AbstractSendMessageProcessor``, 5.5.0)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from rmqproto import properties as props
from rmqproto.bodies import SubscriptionGroupConfig
from rmqproto.codes import FIRST_MAX_RECONSUME_VERSION, RequestCode, ResponseCode
from rmqproto.headers import SendBackHeader
from rmqproto.names import dlq_topic, retry_topic
from rmqproto.record import StoredMessage, decode_record_untrusted
from rmqserver.answer import DEFERRED, Deferred, Refused, Request, success
from rmqserver.broker.send import DLQ_QUEUE_NUMS
from rmqserver.broker.send_checks import SEE_FAQ, own_ip
from rmqserver.broker.send_properties import delayed, join
from rmqserver.broker.topics import PERM_WRITE, UNIT_SUBSCRIBED_FLAG
from rmqserver.store.options import FlushMode
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.acks import Acks
    from rmqserver.broker.groups import GroupTable
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.topics import TopicTable
    from rmqserver.config import BrokerConfig
    from rmqserver.connection import Connection
    from rmqserver.dispatch import Handler
    from rmqserver.store.message_store import MessageStore

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry, 10 s; each later one waits a level longer."""


class SendBacks:
    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        stats: BrokerStats,
        acks: Acks,
    ):
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._stats = stats
        self._acks = acks
        self.advertised_host: bytes | None = None

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back}

    def _send_back(self, request: Request[SendBackHeader], connection: Connection) -> bytes | Deferred:
        header = request.header
        group = self._group_of(header, connection)
        if group.retry_queue_nums <= 0:
            return success(request)
        topic, queue_id = self._retry_queue(header, group)
        message = self._load(header.offset)
        properties = props.parse_untrusted(message.properties_raw)
        properties.setdefault(props.RETRY_TOPIC, message.topic)
        properties[props.WAIT] = "false"
        if header.delay_level < 0 or message.reconsume_times >= _times_max(request, group):
            topic, queue_id = dlq_topic(header.group), 0
            self._topics.create_system(topic, DLQ_QUEUE_NUMS)
            properties[props.DELAY] = "0"
        else:
            level = header.delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
            properties[props.DELAY] = str(level)
        if not properties.get(props.ORIGIN_MESSAGE_ID, "").strip():
            properties[props.ORIGIN_MESSAGE_ID] = message.message_id
        self._store_copy(message, topic, queue_id, properties, connection)
        origin = header.origin_topic if self._topics.get(header.origin_topic or "") else message.topic
        self._stats.add("SNDBCK_PUT_NUMS", f"{origin}@{header.group}")
        # The consumer commits past the message once it has this answer, so in sync mode it waits for the flush.
        is_sync = self._store.options.flush_mode is FlushMode.SYNC
        acks = self._acks.when_flushed if is_sync else self._acks.when_written
        acks.append((connection, success(request)))
        return DEFERRED

    def _group_of(self, header: SendBackHeader, connection: Connection) -> SubscriptionGroupConfig:
        group = self._groups.find(header.group)
        if group is None:
            text = f"subscription group not exist, {header.group} {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        if not self._config.broker_permission & PERM_WRITE:
            text = f"the broker[{own_ip(self._config, connection)}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, text)
        return group

    def _retry_queue(self, header: SendBackHeader, group: SubscriptionGroupConfig) -> tuple[str, int]:
        topic = retry_topic(header.group)
        flag = UNIT_SUBSCRIBED_FLAG if header.unit_mode else 0
        config = self._topics.create_system(topic, group.retry_queue_nums, topic_sys_flag=flag)
        if not config.perm & PERM_WRITE:
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        return topic, random.randrange(group.retry_queue_nums)

    def _load(self, log_offset: int) -> StoredMessage:
        record = self._store.get_record(log_offset)
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {log_offset}")
        return decode_record_untrusted(record)

    def _store_copy(
        self, message: StoredMessage, topic: str, queue_id: int, properties: dict[str, str], connection: Connection
    ) -> None:
        topic, queue_id = delayed(topic, queue_id, properties, len(self._config.delay_levels_ms))
        try:
            appended = self._store.append(
                topic, queue_id, message.flag, message.sys_flag, message.born_timestamp_ms, message.born_host,
                self.advertised_host or connection.local_host, message.reconsume_times + 1, message.body,
                join(properties),
            )  # fmt: skip
        except MessageRefused as refused:
            raise Refused(ResponseCode.SYSTEM_ERROR, refused.status.value) from None
        flow = self._stats.puts[topic]
        flow.message_count += 1
        flow.request_count += 1
        flow.size_bytes += appended.size_bytes


def _times_max(request: Request[SendBackHeader], group: SubscriptionGroupConfig) -> int:
    asked = request.header.max_reconsume_times
    if request.version >= FIRST_MAX_RECONSUME_VERSION and asked is not None:
        return asked
    return group.retry_max_times
