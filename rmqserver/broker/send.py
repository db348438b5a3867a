"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): the hottest path (``SendMessageProcessor``).

A plain message to a known topic costs one look into a dict, a few into its properties, the append and one rendered
answer; whatever is not plain - retry topics, delays, messages sent once more - leaves that path early.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec

from rmqproto import properties as props
from rmqproto.bodies import TopicConfig
from rmqproto.codes import FIRST_MAX_RECONSUME_VERSION, ONEWAY_FLAG, RequestCode, ResponseCode
from rmqproto.headers import Header, SendHeader
from rmqproto.message_id import UniqueIds
from rmqproto.names import RETRY_PREFIX, dlq_topic
from rmqproto.record import MULTI_TAGS, TOPIC_V1_LENGTH_MAX
from rmqserver.answer import DEFERRED, Deferred, Refused, Request
from rmqserver.broker.send_checks import SEE_FAQ, TopicCheck, own_ip, refusal_of
from rmqserver.broker.send_properties import (
    USUAL,
    choose_priority_queue,
    delay_level,
    delayed,
    join,
    note_lite_topic,
    refuse_what_is_not_served,
)
from rmqserver.broker.sent_answers import SentAnswers
from rmqserver.broker.topics import config_text
from rmqserver.store.options import FlushMode
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.acks import Acks
    from rmqserver.broker.groups import GroupTable
    from rmqserver.broker.locks import QueueLocks
    from rmqserver.broker.stats import BrokerStats, Flow
    from rmqserver.broker.topics import TopicTable
    from rmqserver.config import BrokerConfig
    from rmqserver.connection import Connection
    from rmqserver.dispatch import Handler
    from rmqserver.store.message_store import MessageStore

DLQ_QUEUE_NUMS = 1
TARGETS_CACHED_MAX = 10_000


class RefusedSendAnswer(Header, kw_only=True):
    """Goes with every refusal of a send."""

    msg_region: str = msgspec.field(name="MSG_REGION")
    trace_on: str = msgspec.field(name="TRACE_ON")


class Target:
    """What a send needs to know of its topic. Thrown away whenever a topic or a setting changes."""

    __slots__ = ("config", "flow", "is_plain", "queue_limit", "sys_flag")

    def __init__(self, config: TopicConfig, flow: Flow):
        self.config = config
        self.flow = flow
        self.queue_limit = max(config.read_queue_nums, config.write_queue_nums)
        self.sys_flag = MULTI_TAGS if config.topic_filter_type == "MULTI_TAG" else 0
        self.is_plain = not config.topic_name.startswith(RETRY_PREFIX) and not self.needs_keys

    @property
    def needs_keys(self) -> bool:
        return self.config.attributes.get("cleanup.policy") == "COMPACTION"


class Sends:
    """``advertised_host`` goes into records as the store host; None: the address on which each producer reached us."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        locks: QueueLocks,
        stats: BrokerStats,
        acks: Acks,
    ):
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._stats = stats
        self._when_written, self._when_flushed = acks.when_written, acks.when_flushed
        self.advertised_host: bytes | None = None
        self._check = TopicCheck(config, topics, store.clock_ms)
        self._unique_ids = UniqueIds()
        self._append = store.append
        self._targets: dict[str, Target] = {}
        self.settings_changed()

    def handlers(self) -> dict[int, Handler]:
        codes = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        return dict.fromkeys(codes, self.send)

    def settings_changed(self) -> None:
        """A topic or a setting is not what it was."""
        config = self._config
        trace_on = "true" if config.trace_on else "false"
        self._targets.clear()
        self._added = {
            props.MSG_REGION: config.region_id,
            props.TRACE_ON: trace_on,
            props.CLUSTER: config.broker_cluster_name,
        }
        self._added_bytes = join(self._added)
        self._answers = SentAnswers(config.region_id, trace_on)
        self._refused_header = RefusedSendAnswer(msg_region=config.region_id, trace_on=trace_on)
        self._is_sync = self._store.options.flush_mode is FlushMode.SYNC

    # --- the hot path ------------------------------------------------------------------------------------------------

    def send(self, request: Request[SendHeader], connection: Connection) -> Deferred:
        header = request.header
        target = self._targets.get(header.topic) or self._find_target(header, connection)
        queue_id = header.queue_id
        if not 0 <= queue_id < target.queue_limit:
            queue_id = self._choose_queue(target, queue_id, connection)
        if header.batch:
            return self._send_batch(request, connection, target, queue_id)
        properties = header.properties.encode()
        if properties and properties[-1] != 2:  # old clients leave out the last separator
            properties += b"\x02"
        usual = USUAL.fullmatch(properties)
        if usual is None or not target.is_plain:
            return self._send_special(request, connection, target, queue_id)
        unique_key, keys, tags = usual.groups(b"")
        if not unique_key:
            unique_key = self._unique_ids.next().encode()
            properties += b"UNIQ_KEY\x01%b\x02" % unique_key
        store_host = self.advertised_host or connection.local_host
        try:
            appended = self._append(
                header.topic, queue_id, header.flag, header.sys_flag | target.sys_flag, header.born_timestamp,
                connection.born_host, store_host, header.reconsume_times, request.body, properties + self._added_bytes,
                0, (unique_key, keys, tags),
            )  # fmt: skip
        except MessageRefused as refused:
            raise self._refused(refused) from None
        flow = target.flow
        flow.message_count += 1
        flow.request_count += 1
        flow.size_bytes += appended.size_bytes
        if not request.flag & ONEWAY_FLAG:
            answer = self._answers.one(request, store_host, appended, queue_id, unique_key)
            waits = self._is_sync and b"WAIT\x01false" not in properties
            (self._when_flushed if waits else self._when_written).append((connection, answer))
        return DEFERRED

    # --- finding the target ------------------------------------------------------------------------------------------

    def _find_target(self, header: SendHeader, connection: Connection) -> Target:
        try:
            config = self._check.topic_of(header, connection)
        except Refused as refused:
            refused.header = self._refused_header
            raise
        if len(self._targets) >= TARGETS_CACHED_MAX:
            self._targets.clear()
        target = self._targets[header.topic] = Target(config, self._stats.puts[header.topic])
        return target

    def _choose_queue(self, target: Target, queue_id: int, connection: Connection) -> int:
        """For a queue id outside of the topic: any queue for a negative one."""
        if queue_id < 0:
            return random.randrange(max(target.config.write_queue_nums, 1))
        text = f"request queueId[{queue_id}] is illegal, {config_text(target.config)} Producer: {connection.peer}"
        raise self._refuse(ResponseCode.INVALID_PARAMETER, text)

    # --- what is not plain -------------------------------------------------------------------------------------------

    def _send_special(
        self, request: Request[SendHeader], connection: Connection, target: Target, queue_id: int
    ) -> Deferred:
        header = request.header
        properties = props.parse(header.properties)
        topic = header.topic
        sys_flag = header.sys_flag | target.sys_flag
        try:
            if topic.startswith(RETRY_PREFIX) and self._is_dead(request, topic.removeprefix(RETRY_PREFIX)):
                topic, queue_id = dlq_topic(topic.removeprefix(RETRY_PREFIX)), 0
                self._topics.create_system(topic, DLQ_QUEUE_NUMS)
                properties[props.DELAY] = "-1"
            properties.pop(props.POP_CK, None)
            unique_key = properties.setdefault(props.UNIQUE_KEY, self._unique_ids.next())
            note_lite_topic(topic, properties)
            queue_id = choose_priority_queue(properties, queue_id, target.config.write_queue_nums)
            if target.needs_keys and not properties.get(props.KEYS, "").strip():
                raise Refused(ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")
            properties.update(self._added)
            own = own_ip(self._config, connection)
            refuse_what_is_not_served(properties, sys_flag, header.reconsume_times, own)
            levels = len(self._config.delay_levels_ms)
            stored_topic, stored_queue_id = delayed(topic, queue_id, properties, levels)
        except Refused as refused:
            refused.header = self._refused_header
            raise
        store_host = self.advertised_host or connection.local_host
        try:
            appended = self._append(
                stored_topic, stored_queue_id, header.flag, sys_flag, header.born_timestamp, connection.born_host,
                store_host, header.reconsume_times, request.body, join(properties),
            )  # fmt: skip
        except MessageRefused as refused:
            raise self._refused(refused) from None
        self._count(self._stats.puts[stored_topic], 1, appended.size_bytes)
        if not request.is_oneway:
            answer = self._answers.many(request, store_host, appended, [appended.log_offset], queue_id, unique_key)
            self._acknowledge(connection, answer, properties)
        return DEFERRED

    def _is_dead(self, request: Request[SendHeader], group: str) -> bool:
        """Whether a message that a consumer of ``group`` sends to its retry topic has failed for good: after too many
        times, or when the group consumes in order, where nothing can be retried out of it."""
        config = self._groups.find(group)
        if config is None:
            text = f"subscription group not exist, {group} {SEE_FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        header = request.header
        times_max = config.retry_max_times
        if request.version >= FIRST_MAX_RECONSUME_VERSION and header.max_reconsume_times is not None:
            times_max = header.max_reconsume_times
        return header.reconsume_times > times_max or self._locks.is_any_held(group)

    def _send_batch(
        self, request: Request[SendHeader], connection: Connection, target: Target, queue_id: int
    ) -> Deferred:
        header = request.header
        topic = header.topic
        if len(topic) > TOPIC_V1_LENGTH_MAX:
            raise self._refuse(ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {len(topic)}")
        if topic.startswith(RETRY_PREFIX):
            raise self._refuse(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {topic}")
        properties = props.parse(header.properties)
        if delay_level(properties) > 0:
            raise self._refuse(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
        store_host = self.advertised_host or connection.local_host
        try:
            first, log_offsets = self._store.append_batch(
                topic, queue_id, header.sys_flag | target.sys_flag, header.born_timestamp, connection.born_host,
                store_host, header.reconsume_times, request.body,
            )  # fmt: skip
        except MessageRefused as refused:
            raise self._refused(refused) from None
        self._count(target.flow, len(log_offsets), len(request.body))
        if not request.is_oneway:
            unique_key = properties.get(props.UNIQUE_KEY)
            answer = self._answers.many(request, store_host, first, log_offsets, queue_id, unique_key)
            self._acknowledge(connection, answer, properties)
        return DEFERRED

    # --- ends --------------------------------------------------------------------------------------------------------

    def _acknowledge(self, connection: Connection, answer: bytes, properties: dict[str, str]) -> None:
        waits = self._is_sync and properties.get(props.WAIT) != "false"
        (self._when_flushed if waits else self._when_written).append((connection, answer))

    @staticmethod
    def _count(flow: Flow, count: int, size_bytes: int) -> None:
        flow.message_count += count
        flow.request_count += 1
        flow.size_bytes += size_bytes

    def _refuse(self, code: int, remark: str) -> Refused:
        return Refused(code, remark, self._refused_header)

    def _refused(self, refused: MessageRefused) -> Refused:
        self._stats.put_failed += 1
        refusal = refusal_of(refused, self._store)
        return self._refuse(refusal.code, refusal.remark)
