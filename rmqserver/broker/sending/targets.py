"""What sends need to know of their topics. It is looked up once, and dropped whenever a topic or a setting changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.message.sys_flag import MULTI_TAGS
from rmqproto.names import RETRY_PREFIX
from rmqserver.broker.tables.topics import TopicTable, config_text
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqproto.headers.sending import SendHeader
    from rmqserver.broker.sending.send_checks import TopicCheck
    from rmqserver.broker.stats import BrokerStats, Flow
    from rmqserver.config.broker_config import BrokerConfig

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
        self, config: BrokerConfig, topics: TopicTable, check: TopicCheck, stats: BrokerStats,
        when_told: WhenTold = at_once,
    ):  # fmt: skip
        """``when_told`` calls back when the nameservers know the topics as they are now."""
        self.known: dict[str, Target] = {}
        self.when_told = when_told
        self._untold: set[str] = set()
        self._topics = topics
        self._check = check
        self._stats = stats
        self._config = config

    def find(self, header: SendHeader, own_ip: str) -> Target:
        """The target of a send. Raises Refused if nothing may be sent to the topic."""
        is_new = self._topics.get(header.topic) is None
        config = self._check.topic_of(header, own_ip)
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
