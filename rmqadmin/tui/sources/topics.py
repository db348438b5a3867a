"""Topics: names and configurations of all, and numbers of those in view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.names import topics_of_servers
from rmqadmin.core.topics.described import QueueRow, TopicStatus
from rmqadmin.core.topics.stored_queues import add_unread, stored_queues
from rmqadmin.tui.memory.cluster import TOPIC_TABLES, Cluster, ClusterMemory
from rmqadmin.tui.memory.readings import RowReading
from rmqadmin.tui.sources.found import Found, Tables, ask_brokers, askable, read_askable, read_tables
from rmqproto.bodies.routes import BrokerData, TopicConfig, TopicConfigs
from rmqproto.bodies.statistics import TopicStats
from rmqproto.codes import MESSAGE_TYPE, ResponseCode, TopicMessageType
from rmqproto.errors import NotFoundError, RefusedError, RocketMQError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

_ROWS = "rows of topics"
"""The key in the memory."""

OUT_TPS_YOUNG_MS = 10_000
"""How often a topic's rate out is read, whatever the interval: brokers count it anew every ten seconds, and its groups,
which hardly ever change. It was more than half of a topic list's requests."""

UNREAD_YOUNG_MS = 60_000
"""How often a topic is asked for queues that consumers do not read: for those past its counts, by 16 requests."""

_RETRY, _DEAD_LETTERS, _SYSTEM = "retry", "dead letters", "system"
_LITE = TopicMessageType.LITE.lower()
MADE_BY_BROKERS = frozenset({_RETRY, _SYSTEM})
"""Kinds of topics that brokers make and users rarely look for. Dead-letter topics are not among them."""


class TopicFacts(msgspec.Struct, frozen=True, gc=False):
    """A topic and its configuration by broker name, empty if only the nameserver knows it. ``brokers``: its brokers
    that can be asked. ``lacking``: names of those that cannot. ``unheard``: brokers that never listed their topics."""

    topic: str
    kind: str
    configs: dict[str, TopicConfig]
    brokers: list[BrokerData]
    lacking: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()

    @property
    def masters(self) -> list[str]:
        return targets.selected_addrs(self.brokers)

    @property
    def perm(self) -> int | None:
        """The permissions on all its brokers. None if they differ, or if no configuration is known."""
        perms = {config.perm for config in self.configs.values()}
        return perms.pop() if len(perms) == 1 else None

    @property
    def has_unequal_perms(self) -> bool:
        return len({config.perm for config in self.configs.values()}) > 1

    @property
    def waits_for_groups(self) -> bool:
        """Whether somebody has forgotten it, if it has messages and no group. Dead letters wait for people, and groups
        of a lite topic are those of its light queues."""
        return self.kind not in (_DEAD_LETTERS, _LITE)

    @property
    def read_queue_nums(self) -> int | None:
        return sum(config.read_queue_nums for config in self.configs.values()) if self.configs else None

    @property
    def write_queue_nums(self) -> int | None:
        return sum(config.write_queue_nums for config in self.configs.values()) if self.configs else None


class TopicNumbers(msgspec.Struct, frozen=True):
    """Sums over a topic's brokers, without those in ``lacking``. ``unread_count``: what consumers do not read of the
    messages, without queues past the topic's counts, which ``read_queues`` looks for. ``group_count``: groups that read
    it, online or not; None if a broker that may know others did not say. ``error`` says why they are not known."""

    message_count: int | None = None
    unread_count: int | None = None
    group_count: int | None = None
    in_tps: float | None = None
    out_tps: float | None = None
    last_updated_ms: int | None = None
    lacking: tuple[str, ...] = ()
    error: str | None = None


class _Readers(msgspec.Struct, frozen=True):
    """The groups that read a topic on one broker, and how many messages a second it delivers to them."""

    groups: list[str]
    tps: float


def read_topics(admin: AdminClient, memory: ClusterMemory) -> Found[TopicFacts]:
    """Reads every topic that the nameserver or a master knows: ordinary ones first, then dead-letter, retry and system
    topics. For brokers that do not answer, it uses their last answers. Returns the same object if the servers' answers
    are the same as before, so that rows are not made again."""
    names = admin.topic_list()  # before brokers, of which a silent one may take all the time
    told = (*read_places(admin, memory), names)
    before, found = memory.last(_ROWS, "") or (None, None)
    if found is None or before != told:
        found = _found(*told)
        memory.keep(_ROWS, "", (told, found))
    rows: Found[TopicFacts] = found
    return rows


def read_places(admin: AdminClient, memory: ClusterMemory) -> tuple[Cluster, Tables[TopicConfigs]]:
    """Reads which topics each broker has, so that sums know what a broker had once it is gone."""
    cluster = read_askable(admin, memory)
    tables = read_tables(memory, cluster, TOPIC_TABLES, lambda broker: admin.all_topics(broker.selected_addr() or ""))
    return cluster, tables


def _found(cluster: Cluster, tables: Tables[TopicConfigs], names: Sequence[str]) -> Found[TopicFacts]:
    askable = {broker.broker_name: broker for broker in cluster.brokers if broker.broker_name not in tables.lacks}
    own = topics_of_servers(cluster.info) | set(cluster.gone)
    configs: dict[str, dict[str, TopicConfig]] = {name: {} for name in names}
    for broker_name, table in tables.by_broker.items():
        for name, config in table.topic_config_table.items():
            configs.setdefault(name, {})[broker_name] = config
    unheard = tuple(tables.unheard)

    @cache
    def asked_of(mine: tuple[str, ...]) -> tuple[list[BrokerData], tuple[str, ...]]:
        """Cached, because ten thousand topics are on few different sets of brokers."""
        return [askable[one] for one in mine if one in askable], tuple(one for one in mine if one not in askable)

    def facts(name: str, mine: dict[str, TopicConfig]) -> TopicFacts:
        kind = _SYSTEM if name in own else _kind(name, mine)
        return TopicFacts(name, kind, mine, *asked_of(tuple(mine)), unheard)

    found = [facts(name, mine) for name, mine in configs.items()]
    ordered = sorted(found, key=lambda one: (_KINDS_LAST.get(one.kind, 0), one.topic))
    return Found({one.topic: one for one in ordered}, tables.lacks)


_KINDS_LAST = {_DEAD_LETTERS: 1, _RETRY: 2, _SYSTEM: 3}


def _kind(topic: str, configs: Mapping[str, TopicConfig]) -> str:
    if topic.startswith(RETRY_PREFIX):
        return _RETRY
    if topic.startswith(DLQ_PREFIX):
        return _DEAD_LETTERS
    if is_system_topic(topic):
        return _SYSTEM
    types = {config.attributes.get(MESSAGE_TYPE, "") for config in configs.values()} - {""}
    return ", ".join(sorted(types)).lower()


def read_numbers(
    admin: AdminClient, memory: ClusterMemory, topics: Mapping[str, TopicFacts]
) -> dict[str, TopicNumbers]:
    """Reads the numbers of topics: a request for each topic and broker, and at times one for the names of the groups
    that read it and one for each of these."""
    return {name: _numbers(admin, memory, facts) for name, facts in topics.items()}


def _numbers(admin: AdminClient, memory: ClusterMemory, facts: TopicFacts) -> TopicNumbers:
    lacking = [*facts.lacking, *_unheard_of(admin, memory, facts)]
    if not facts.brokers:
        reasons = [f"{name} {memory.gone_text(name) or 'does not answer'}" for name in lacking]
        return TopicNumbers(error=", ".join(reasons) or "no broker says that it has it")

    def ask(broker: BrokerData) -> tuple[TopicStats, _Readers]:
        addr = broker.selected_addr() or ""
        stats = admin.topic_stats(addr, facts.topic)
        return stats, memory.young(
            f"readers of {facts.topic}", addr, OUT_TPS_YOUNG_MS, lambda: _readers(admin, addr, facts.topic)
        )

    try:
        answers, lacks = ask_brokers(memory, facts.brokers, ask)
    except RocketMQError as error:
        return TopicNumbers(error=str(error))
    stats = [answer for _, (answer, _) in answers]
    ends = [one for answer in stats for one in answer.offset_table.values()]
    readers = [of_broker for _, (_, of_broker) in answers]
    return TopicNumbers(
        message_count=sum(one.max_offset - one.min_offset for one in ends),
        unread_count=sum(_unread_count(facts.configs.get(of.broker_name), answer) for of, (answer, _) in answers),
        group_count=None if lacking or lacks else len({group for each in readers for group in each.groups}),
        in_tps=sum(answer.topic_put_tps for answer in stats),
        out_tps=sum(each.tps for each in readers),
        last_updated_ms=max((one.last_update_timestamp for one in ends), default=0) or None,
        lacking=(*lacking, *lacks),
    )


def _unheard_of(admin: AdminClient, memory: ClusterMemory, facts: TopicFacts) -> list[str]:
    """The ``unheard`` brokers that may have the topic: those in its route, and those that are gone, which no route
    names."""
    if not facts.unheard:
        return []
    route = targets.find_route(admin, facts.topic)
    named = {broker.broker_name for broker in route.broker_datas} if route else set()
    return [name for name in facts.unheard if name in named or memory.gone_text(name) is not None]


def _unread_count(config: TopicConfig | None, stats: TopicStats) -> int:
    """Messages on one broker in queues that consumers do not read, of those that it lists."""
    return sum(
        ends.max_offset - ends.min_offset
        for queue, ends in stats.offset_table.items()
        if config is not None and queue.queue_id >= config.read_queue_nums
    )


def _readers(admin: AdminClient, addr: str, topic: str) -> _Readers:
    """The rate is over the last minute."""
    groups, tps = admin.groups_of_topic(addr, topic), 0.0
    for group in groups:
        try:
            tps += admin.broker_stats(addr, "GROUP_GET_NUMS", f"{topic}@{group}").stats_minute.tps
        except RefusedError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:  # the broker has no statistics for the key
                raise
    return _Readers(groups, tps)


def topic_reading(numbers: TopicNumbers) -> RowReading:
    """The numbers of a topic that are sampled."""
    return RowReading({"in_tps": numbers.in_tps, "out_tps": numbers.out_tps}, numbers.lacking)


def read_topic_row(admin: AdminClient, memory: ClusterMemory, topic: str) -> RowReading:
    """Reads the sampled numbers of a topic. Only the nameserver is asked for its brokers."""
    brokers = askable(admin.topic_route(topic).broker_datas)
    numbers = _numbers(admin, memory, TopicFacts(topic, "", {}, brokers))
    if numbers.error is not None:
        raise NotFoundError(numbers.error)
    return topic_reading(numbers)


class QueuesFound(msgspec.Struct, frozen=True):
    """One row for each queue, as in `topicStatus`, and how many messages a second the topic stores."""

    found: Found[QueueRow]
    in_tps: float


def read_queues(admin: AdminClient, memory: ClusterMemory, topic: str) -> QueuesFound:
    route = admin.topic_route(topic)
    answers, lacks = ask_brokers(
        memory, askable(route.broker_datas), lambda broker: admin.topic_stats(broker.selected_addr() or "", topic)
    )
    lacks |= memory.lost_of(topic, {broker.broker_name for broker in route.broker_datas})
    offsets = {queue: ends for _, stats in answers for queue, ends in stats.offset_table.items()}
    nums = ",".join(f"{each.read_queue_nums}/{each.write_queue_nums}" for each in route.queue_datas)
    stored = memory.young(f"queues of {topic} {nums}", "", UNREAD_YOUNG_MS, lambda: stored_queues(admin, route, topic))
    unread = add_unread(admin, stored, offsets)
    status = TopicStatus(offsets, sum(stats.topic_put_tps for _, stats in answers), unread)
    rows = {f"{row.broker_name}/{row.queue_id}": row for row in status.rows()}
    return QueuesFound(Found(rows, lacks), status.put_tps)
