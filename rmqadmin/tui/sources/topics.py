"""Topics: names and configurations of all, numbers of those in view."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.system_names import topics_of_servers
from rmqadmin.core.topics.topic_status import QueueRow, TopicStatus
from rmqadmin.tui.sources.found import Found, ask_those_that_answer
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import BrokerData, TopicConfig, TopicConfigs
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

_MESSAGE_TYPE = "message.type"


class TopicFacts(msgspec.Struct, frozen=True):
    """A topic and its configuration by broker name, empty if only the name server knows it. ``masters`` holds the
    addresses of these brokers."""

    topic: str
    kind: str
    configs: dict[str, TopicConfig]
    masters: dict[str, str]

    @property
    def perm(self) -> int | None:
        """What all its brokers permit. None if they differ, or if no configuration is known."""
        perms = {config.perm for config in self.configs.values()}
        return perms.pop() if len(perms) == 1 else None

    @property
    def has_unequal_perms(self) -> bool:
        return len({config.perm for config in self.configs.values()}) > 1

    @property
    def read_queue_nums(self) -> int | None:
        return sum(config.read_queue_nums for config in self.configs.values()) if self.configs else None

    @property
    def write_queue_nums(self) -> int | None:
        return sum(config.write_queue_nums for config in self.configs.values()) if self.configs else None


class TopicNumbers(msgspec.Struct, frozen=True):
    """What a topic holds on all brokers together. ``error`` says why that is not known."""

    message_count: int | None = None
    in_tps: float | None = None
    out_tps: float | None = None
    last_updated_ms: int | None = None
    error: str | None = None


def read_topics(admin: AdminClient) -> Found[TopicFacts]:
    """Every topic the name server or a master knows: ordinary ones first, then retry, dead-letter and system topics."""
    names = admin.topic_list()
    cluster = admin.cluster_info()
    masters = [broker for broker in targets.all_brokers(cluster) if broker.selected_addr()]
    own = topics_of_servers(cluster)
    answers, problems = ask_those_that_answer(lambda broker: _configs(admin, broker), masters)
    configs: dict[str, dict[str, TopicConfig]] = {name: {} for name in names}
    addrs = {broker.broker_name: broker.selected_addr() or "" for broker in masters}
    for broker, answer in answers:
        for name, config in answer.topic_config_table.items():
            configs.setdefault(name, {})[broker.broker_name] = config
    facts = (
        TopicFacts(
            name, "system" if name in own else _kind(name, mine), mine, {broker: addrs[broker] for broker in mine}
        )
        for name, mine in configs.items()
    )
    ordered = sorted(facts, key=lambda one: (_KINDS_LAST.get(one.kind, 0), one.topic))
    return Found({one.topic: one for one in ordered}, problems)


def _configs(admin: AdminClient, broker: BrokerData) -> TopicConfigs:
    return admin.all_topics(broker.selected_addr() or "")


_KINDS_LAST = {"retry": 1, "dead letters": 2, "system": 3}


def _kind(topic: str, configs: Mapping[str, TopicConfig]) -> str:
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dead letters"
    if is_system_topic(topic):
        return "system"
    types = {config.attributes.get(_MESSAGE_TYPE, "") for config in configs.values()} - {""}
    return ", ".join(sorted(types)).lower()


def read_numbers(admin: AdminClient, topics: Mapping[str, TopicFacts]) -> dict[str, TopicNumbers]:
    """Two requests a topic and broker, and one more for each group that reads it."""
    return {name: _numbers(admin, facts) for name, facts in topics.items()}


def _numbers(admin: AdminClient, facts: TopicFacts) -> TopicNumbers:
    try:
        stats = targets.ask_each(lambda addr: admin.topic_stats(addr, facts.topic), list(facts.masters.values()))
        ends = [one for answer in stats for one in answer.offset_table.values()]
        return TopicNumbers(
            message_count=sum(one.max_offset - one.min_offset for one in ends),
            in_tps=sum(answer.topic_put_tps for answer in stats),
            out_tps=sum(_out_tps(admin, addr, facts.topic) for addr in facts.masters.values()),
            last_updated_ms=max((one.last_update_timestamp for one in ends), default=0) or None,
        )
    except RocketMQError as error:
        return TopicNumbers(error=str(error))


def _out_tps(admin: AdminClient, addr: str, topic: str) -> float:
    """Messages a second that one broker hands to the topic's groups, over the last minute."""
    total = 0.0
    for group in admin.groups_of_topic(addr, topic):
        try:
            total += admin.broker_stats(addr, "GROUP_GET_NUMS", f"{topic}@{group}").stats_minute.tps
        except RefusedError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:  # nothing was counted under the key
                raise
    return total


def read_queues(admin: AdminClient, topic: str) -> tuple[Found[QueueRow], float]:
    """One row a queue, as `topicStatus` shows them, and the topic's messages stored a second."""
    route = admin.topic_route(topic)
    answers, problems = ask_those_that_answer(
        lambda addr: admin.topic_stats(addr, topic), targets.selected_addrs(route.broker_datas)
    )
    offsets = {queue: ends for _, stats in answers for queue, ends in stats.offset_table.items()}
    status = TopicStatus(offsets, sum(stats.topic_put_tps for _, stats in answers))
    rows = {f"{row.broker_name}/{row.queue_id}": row for row in status.rows()}
    return Found(rows, problems), status.put_tps
