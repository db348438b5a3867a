"""The topics of sends: their checks, in Apache's order and words (``AbstractSendMessageProcessor``, 5.5.0), and what
sends need to know of them, which is dropped whenever a topic or a setting changes. Also how the store's refusals become
refusals of the send."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import PERM_WRITE, ResponseCode
from rmqproto.headers.sending import SendHeader
from rmqproto.message.sys_flag import MULTI_TAGS, UNIT_SUBSCRIBED
from rmqproto.names import RETRY_PREFIX, SEND_FORBIDDEN_TOPICS, topic_problem
from rmqserver.broker.tables.topics import TopicTable, config_text
from rmqserver.operation import SEE_FAQ, Refused
from rmqserver.store.results import MessageRefused, PutStatus

if TYPE_CHECKING:
    from rmqserver.broker.stats import BrokerStats, Flow
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore


RETRY_QUEUE_NUMS = 1
"""Queues of a group's retry topic that a send creates."""


def refusal_of(refused: MessageRefused, store: MessageStore) -> Refused:
    """The answer to a producer whose message the store did not take (``handlePutMessageResult``)."""
    if refused.status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED):
        limit = store.options.message_size_max_bytes
        text = (
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {limit}B, msg properties length limit 32KB."
        )
        return Refused(ResponseCode.MESSAGE_ILLEGAL, text)
    if refused.status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED:
        text = "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded."
        return Refused(ResponseCode.LMQ_QUOTA_EXCEEDED, text)
    if refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED:
        text = f"create mapped file failed, server is busy or broken. {refused}"
        return Refused(ResponseCode.SYSTEM_ERROR, text)
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, unavailable_text(store, str(refused)))


def unavailable_text(store: MessageStore, reason: str) -> str:
    """Apache's sentence for code 14, followed by the reason."""
    paths = store.directory
    ratios = [store.disk.usage(path).used_percent / 100 for path in (paths.commit_log, paths.consume_queues)]
    return (
        "service not available now. It may be caused by one of the following reasons: the broker's disk is full "
        f"[CL: {ratios[0]:5.2f} CQ: {ratios[1]:5.2f} INDEX: {ratios[1]:5.2f}], messages are put to the slave, "
        f"message store has been shut down, etc. {reason}"
    )


TARGETS_CACHED_MAX = 10_000

WhenTold = Callable[[Callable[[], None]], None]


def at_once(callback: Callable[[], None]) -> None:
    """A ``WhenTold`` for a broker without nameservers."""
    callback()


class Target:
    """A topic that is sent to. ``sys_flag`` is what it adds to its messages. ``is_plain``: only the message itself
    decides what is stored, and when the producer is told. ``is_told``: the nameservers know the topic."""

    __slots__ = ("config", "flow", "is_plain", "is_told", "queue_limit", "sys_flag")

    def __init__(self, config: TopicConfig, flow: Flow):
        self.config = config
        self.flow = flow
        self.is_told = True
        self.queue_limit = max(config.read_queue_nums, config.write_queue_nums)
        self.sys_flag = MULTI_TAGS if config.topic_filter_type == "MULTI_TAG" else 0
        self.is_plain = not config.topic_name.startswith(RETRY_PREFIX) and not self.needs_keys

    @property
    def needs_keys(self) -> bool:
        return self.config.attributes.get("cleanup.policy") == "COMPACTION"

    def choose_queue(self, queue_id: int, producer: str) -> int:
        """The queue for a producer's queue id: any for a negative id, if there is one to write to. Refused, with the
        producer in the remark, if the topic has none of this id."""
        if 0 <= queue_id < self.queue_limit:
            return queue_id
        if queue_id < 0:
            if self.config.write_queue_nums <= 0:  # no consumer would read a queue that the topic does not have
                text = f"the topic[{self.config.topic_name}] has no queue to write to"
                raise Refused(ResponseCode.SYSTEM_ERROR, text)
            return int(random.random() * self.config.write_queue_nums)  # randrange takes twice as long
        text = f"request queueId[{queue_id}] is illegal, {config_text(self.config)} Producer: {producer}"
        raise Refused(ResponseCode.INVALID_PARAMETER, text)


class Targets:
    """The targets of sends. ``known`` has them by topic, except those that the nameservers do not know yet."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, stats: BrokerStats, clock_ms: Callable[[], int],
        when_told: WhenTold = at_once,
    ):  # fmt: skip
        """``when_told`` calls back when the nameservers know the topics as they are now."""
        self.known: dict[str, Target] = {}
        self.when_told = when_told
        self._untold: set[str] = set()
        self._topics = topics
        self._clock_ms = clock_ms
        self._stats = stats
        self._config = config

    def find(self, header: SendHeader, own_ip: str) -> Target:
        """The target of a send. Raises Refused if nothing may be sent to the topic."""
        is_new = self._topics.get(header.topic) is None
        config = self.topic_of(header, own_ip)
        if len(self.known) >= TARGETS_CACHED_MAX:
            self.known.clear()
        target = Target(config, self._stats.puts[header.topic])
        if self._config.unique_key_check_ms:  # every message may be a repeat
            target.is_plain = False
        if is_new:
            self._untold.add(header.topic)
            self.when_told(lambda: self._untold.discard(header.topic))
        if header.topic in self._untold:
            target.is_told = target.is_plain = False
        else:
            self.known[header.topic] = target
        return target

    def topic_of(self, header: SendHeader, own_ip: str) -> TopicConfig:
        """The topic of the send. Raises Refused with 1, 16, 17 or 29 if nothing may be sent to it; ``own_ip`` is our
        address in remarks."""
        config, topic = self._config, header.topic
        if self._clock_ms() < config.start_accept_send_request_ms:
            seconds, ms = divmod(config.start_accept_send_request_ms, 1000)
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
            raise Refused(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {when},{ms:03d}")
        found = self._topics.get(topic)
        if not config.broker_permission & PERM_WRITE and found is not None and found.order:
            text = f"the broker[{own_ip}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, text)
        problem = topic_problem(topic)
        if problem is not None:
            raise Refused(ResponseCode.INVALID_PARAMETER, problem)
        if topic in SEND_FORBIDDEN_TOPICS:
            raise Refused(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        is_retry = topic.startswith(RETRY_PREFIX)
        found = found or self._topics.create_on_send(
            topic, header.default_topic, header.default_topic_queue_nums, header.is_unit and not is_retry
        )
        if found is None and is_retry:
            flag = UNIT_SUBSCRIBED if header.is_unit else 0
            found = self._topics.create_system(topic, RETRY_QUEUE_NUMS, topic_sys_flag=flag)
        if found is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{SEE_FAQ}")
        return found
