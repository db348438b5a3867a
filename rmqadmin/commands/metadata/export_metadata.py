"""``exportMetadata``: exports topics and groups to files that `updateTopicList` and `updateSubGroupList` take back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.cli.options.export_options import ExportFolder
from rmqadmin.core import targets
from rmqadmin.core.metadata.exports import export
from rmqadmin.core.metadata.user_tables import user_groups, user_topics
from rmqadmin.core.results import Result, Row, doc
from rmqproto.bodies.groups import SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.bodies.routes import TopicConfig, TopicConfigs

_TOPICS, _GROUPS = "topicConfigTable", "subscriptionGroupTable"


class MetadataRow(Row, frozen=True):
    kind: Annotated[str, doc("topic or group", key=True)]
    name: Annotated[str, doc("its name", key=True)]
    broker_addr: Annotated[str, doc("address of the broker", key=True)]
    config: Annotated[dict[str, Any], doc("its configuration there, by Apache's names")]


class BrokerTables(msgspec.Struct, frozen=True):
    """The tables of one broker; None for those not wanted."""

    addr: str
    topics: TopicConfigs | None
    groups: SubscriptionGroups | None

    def rows(self) -> list[MetadataRow]:
        topics = self.topics.topic_config_table if self.topics else {}
        groups = self.groups.subscription_group_table if self.groups else {}
        found: list[tuple[str, str, TopicConfig | SubscriptionGroupConfig]]
        found = [("topic", name, topics[name]) for name in sorted(topics)]
        found += [("group", name, groups[name]) for name in sorted(groups)]
        return [
            MetadataRow(kind=kind, name=name, broker_addr=self.addr, config=msgspec.to_builtins(config))
            for kind, name, config in found
        ]


class Metadata(Result, frozen=True):
    """Topics and groups, one row each and broker."""

    row_type: ClassVar[type[Row]] = MetadataRow
    tables: list[BrokerTables]
    path: str | None
    mqadmin_end: str

    def rows(self) -> Sequence[MetadataRow]:
        return [row for one in self.tables for row in one.rows()]

    def mqadmin_text(self) -> str | None:
        return None if self.path is None else f"export {self.path} success{self.mqadmin_end}"


def export_metadata(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    file_path: ExportFolder = None,
    topic: Annotated[bool, typer.Option("-t", "--topic", help="Topics only.")] = False,
    subscription_group: Annotated[bool, typer.Option("-g", "--subscriptionGroup", help="Groups only.")] = False,
    special_topic: Annotated[
        bool, typer.Option("-s", "--specialTopic", help="Also retry topics and dead-letter queues.")
    ] = False,
) -> Metadata:
    """With -f, also writes DIR/topic.json, subscriptionGroup.json or metadata.json, which updateTopicList and
    updateSubGroupList read. If several masters have the same topic or group, the file has the largest number of queues;
    mqadmin adds them up, and so does --output mqadmin. System topics and groups are left out.

    Examples:
      rmqadmin exportMetadata -c DefaultCluster -f export
      rmqadmin exportMetadata -b 127.0.0.1:10911 -t
      rmqadmin -o jsonl exportMetadata -c DefaultCluster -g
    """
    admin = call.admin
    addrs = targets.masters(admin, broker_addr, cluster_name)
    wants_topics, wants_groups = topic or not subscription_group, not topic

    def ask(addr: str) -> BrokerTables:
        topics = user_topics(admin, addr, with_special=special_topic) if wants_topics else None
        return BrokerTables(addr, topics, user_groups(admin, addr) if wants_groups else None)

    tables = targets.ask_each(ask, addrs)
    join = sum if call.as_mqadmin else max
    name = "metadata.json" if wants_topics and wants_groups else "topic.json" if topic else "subscriptionGroup.json"

    def content() -> Any:
        if cluster_name is None and not (wants_topics and wants_groups):
            return _one_table(tables[0])
        return _file(tables, join, call.now_ms())

    path = export(file_path, call.as_mqadmin, name, content, call.notice)
    return Metadata(tables, path, "" if cluster_name is None else "\n")


def _one_table(one: BrokerTables) -> dict[str, Any]:
    """mqadmin's file for one broker, which includes the table's version."""
    if one.topics is not None:
        return {"dataVersion": one.topics.data_version, _TOPICS: dict(sorted(one.topics.topic_config_table.items()))}
    assert one.groups is not None
    return {"dataVersion": one.groups.data_version, _GROUPS: dict(sorted(one.groups.subscription_group_table.items()))}


def _file(tables: Sequence[BrokerTables], join: Callable[[Iterable[int]], int], now_ms: int) -> dict[str, Any]:
    content: dict[str, Any] = {"exportTime": now_ms}
    if any(one.topics for one in tables):
        content[_TOPICS] = dict(sorted(_joined_topics(tables, join).items()))
    if any(one.groups for one in tables):
        content[_GROUPS] = dict(sorted(_joined_groups(tables, join).items()))
    return content


def _joined_topics(tables: Sequence[BrokerTables], join: Callable[[Iterable[int]], int]) -> dict[str, TopicConfig]:
    found: dict[str, TopicConfig] = {}
    for one in tables:
        for name, config in one.topics.topic_config_table.items() if one.topics else ():
            old = found.get(name)
            if old is not None:
                reads = join((old.read_queue_nums, config.read_queue_nums))
                writes = join((old.write_queue_nums, config.write_queue_nums))
                config = msgspec.structs.replace(config, read_queue_nums=reads, write_queue_nums=writes)
            found[name] = config
    return found


def _joined_groups(
    tables: Sequence[BrokerTables], join: Callable[[Iterable[int]], int]
) -> dict[str, SubscriptionGroupConfig]:
    found: dict[str, SubscriptionGroupConfig] = {}
    for one in tables:
        for name, config in one.groups.subscription_group_table.items() if one.groups else ():
            old = found.get(name)
            if old is not None:
                retries = join((old.retry_queue_nums, config.retry_queue_nums))
                config = msgspec.structs.replace(config, retry_queue_nums=retries)
            found[name] = config
    return found
