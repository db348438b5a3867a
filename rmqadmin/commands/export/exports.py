"""Topics, groups, settings and POP records of brokers are shown, and written to files."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName, EveryReplicaToo, ExportFolder, TrueFalse
from rmqadmin.cli.options.common_options import option
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, carry_out
from rmqadmin.core.mqadmin_text import java_bool
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.servers.exports import export, user_groups, user_topics
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


class Metadata(ResultOf[MetadataRow], frozen=True):
    """Topics and groups, one row each and broker."""

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
    topic: Annotated[bool, option("-t", "--topic", "Topics only.")] = False,
    subscription_group: Annotated[bool, option("-g", "--subscriptionGroup", "Groups only.")] = False,
    special_topic: Annotated[bool, option("-s", "--specialTopic", "Also retry topics and dead-letter queues.")] = False,
) -> Metadata:
    """With -f, also writes DIR/topic.json, subscriptionGroup.json or metadata.json, which updateTopicList and
    updateSubGroupList read. If several masters have the same topic or group, the file has the largest number of queues;
    mqadmin adds them up, and so does --output mqadmin. System topics and groups are left out.

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

    tables = [*call.answers.of(ask, addrs).values()]
    join = sum if call.as_mqadmin else max
    name = "metadata.json" if wants_topics and wants_groups else "topic.json" if topic else "subscriptionGroup.json"

    def content() -> Any:
        if cluster_name is None and not (wants_topics and wants_groups):
            return _one_table(tables[0])
        return _metadata_file(tables, join, call.now_ms())

    path = export(file_path, call.as_mqadmin, name, content, call.notice)
    return Metadata(tables, path, "" if cluster_name is None else "\n")


def _one_table(one: BrokerTables) -> dict[str, Any]:
    """mqadmin's file for one broker, which includes the table's version."""
    if one.topics is not None:
        return {"dataVersion": one.topics.data_version, _TOPICS: dict(sorted(one.topics.topic_config_table.items()))}
    assert one.groups is not None
    return {"dataVersion": one.groups.data_version, _GROUPS: dict(sorted(one.groups.subscription_group_table.items()))}


def _metadata_file(tables: Sequence[BrokerTables], join: Callable[[Iterable[int]], int], now_ms: int) -> dict[str, Any]:
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


KEYS = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "filterServerNums",
    "flushDiskType", "maxMessageSize", "messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn",
    "traceTopicEnable", "useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
)  # fmt: skip


class ExportedConfigRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    key: Annotated[str, doc("name of the property", key=True)]
    value: Annotated[str, doc("its value on the master, as text", vital=True)]


class ClusterScale(Row, frozen=True):
    namesrv_count: Annotated[int, doc("name servers of -n")]
    master_count: Annotated[int, doc("masters of the cluster")]
    slave_count: Annotated[int, doc("slaves of the cluster")]


class ExportedConfigs(ResultOf[ExportedConfigRow], frozen=True):
    """Settings of masters."""

    configs: dict[str, dict[str, str]]
    scale: ClusterScale
    path: str | None

    def rows(self) -> Sequence[ExportedConfigRow]:
        return [
            ExportedConfigRow(broker_name=name, key=key, value=self.configs[name][key])
            for name in sorted(self.configs)
            for key in self.configs[name]
        ]

    def summary(self) -> ClusterScale:
        return self.scale

    def mqadmin_text(self) -> str | None:
        return None if self.path is None else f"export {self.path} success"


def export_configs(call: Call, cluster_name: ClusterName = None, file_path: ExportFolder = None) -> ExportedConfigs:
    """With -f, also writes DIR/configs.json in mqadmin's form. --output mqadmin always writes that file, as mqadmin
    does.

      rmqadmin exportConfigs -c DefaultCluster
      rmqadmin exportConfigs -c DefaultCluster -f export
    """
    admin = call.admin
    brokers = targets.named_cluster(admin, cluster_name)
    masters = {broker.master_addr: broker.broker_name for broker in brokers if broker.master_addr}
    answers = call.answers.of(admin.broker_config, masters)
    configs = {masters[addr]: {key: told[key] for key in KEYS if key in told} for addr, told in answers.items()}
    scale = ClusterScale(
        namesrv_count=len(admin.namesrv_addrs),
        master_count=len(masters),
        slave_count=sum(len(broker.broker_addrs) for broker in brokers) - len(masters),
    )
    path = export(file_path, call.as_mqadmin, "configs.json", lambda: _configs_file(configs, scale), call.notice)
    return ExportedConfigs(configs, scale, path)


def _configs_file(configs: dict[str, dict[str, str]], scale: ClusterScale) -> dict[str, Any]:
    sizes = {
        "namesrvSize": scale.namesrv_count,
        "masterBrokerSize": scale.master_count,
        "slaveBrokerSize": scale.slave_count,
    }
    properties = {name: dict(sorted(values.items())) for name, values in sorted(configs.items())}
    return {"brokerConfigs": properties, "clusterScale": sizes}


def export_pop_record(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplicaToo = None,
    is_planned: Annotated[
        TrueFalse, option("-d", "--dryRun", "Only show what would be asked of the brokers.")
    ] = TrueFalse.FALSE,
) -> Changes:
    """Needed before a broker goes back to a release that keeps these records in files. mqadmin's -d is inverted: with
    -d true it exports.

      rmqadmin exportPopRecord -b 127.0.0.1:10911
      rmqadmin exportPopRecord -c DefaultCluster -d true
    """
    admin = call.admin
    names = _named(call, broker_addr, cluster_name)
    is_dry = call.dry_run or is_planned is TrueFalse.TRUE
    rows = carry_out(
        [Step(addr, "export", [], partial(admin.export_pop_records, addr)) for addr in names], dry_run=is_dry
    )
    text = "".join(
        f"Export broker records, brokerName={names[row.target]}, brokerAddr={row.target}, dryRun={java_bool(is_dry)}\n"
        for row in rows
        if row.error is None
    )
    return Changes(rows, text)


def _named(call: Call, broker_addr: str | None, cluster_name: str | None) -> dict[str, str]:
    """Broker names by address."""
    targets.check_one_of(broker_addr, cluster_name)
    if cluster_name is None:
        (addr,) = targets.replicas(call.admin, broker_addr, None)
        return {addr: call.admin.broker_config(addr).get("brokerName", "null")}
    brokers = targets.cluster(call.admin, cluster_name)
    return {addr: broker.broker_name for broker in brokers for addr in targets.replicas_of_all([broker])}
