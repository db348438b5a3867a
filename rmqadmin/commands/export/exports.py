"""Topics, groups, settings and POP records of brokers are shown, and written to files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ClusterName, ExportFolder, Masters, Replicas, TrueFalse
from rmqadmin.cli.options.common_options import option
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, carry_out
from rmqadmin.core.mqadmin_text import java_bool
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.servers.exports import export, user_groups, user_topics
from rmqproto.bodies.groups import SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.bodies.routes import TopicConfig, TopicConfigs

Config = TypeVar("Config", TopicConfig, SubscriptionGroupConfig)
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

    @property
    def topic_configs(self) -> dict[str, TopicConfig]:
        return self.topics.topic_config_table if self.topics else {}

    @property
    def group_configs(self) -> dict[str, SubscriptionGroupConfig]:
        return self.groups.subscription_group_table if self.groups else {}

    def rows(self) -> list[MetadataRow]:
        return [
            MetadataRow(kind=kind, name=name, broker_addr=self.addr, config=msgspec.to_builtins(configs[name]))
            for kind, configs in (("topic", self.topic_configs), ("group", self.group_configs))
            for name in sorted(configs)
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
    where: Masters,
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
    wants_topics, wants_groups = topic or not subscription_group, not topic

    def ask(addr: str) -> BrokerTables:
        topics = user_topics(admin, addr, with_special=special_topic) if wants_topics else None
        return BrokerTables(addr, topics, user_groups(admin, addr) if wants_groups else None)

    tables = [*call.answers.of(ask, where.addrs(admin)).values()]
    join = sum if call.as_mqadmin else max
    name = "metadata.json" if wants_topics and wants_groups else "topic.json" if topic else "subscriptionGroup.json"

    def content() -> Any:
        if where.cluster_name is None and not (wants_topics and wants_groups):
            return _one_table(tables[0])
        return _metadata_file(tables, join, call.now_ms())

    path = export(file_path, call.as_mqadmin, name, content, call.notice)
    return Metadata(tables, path, "" if where.cluster_name is None else "\n")


def _one_table(one: BrokerTables) -> dict[str, Any]:
    """mqadmin's file for one broker, which includes the table's version."""
    table = one.topics or one.groups
    assert table is not None
    name, configs = (_TOPICS, one.topic_configs) if one.topics else (_GROUPS, one.group_configs)
    return {"dataVersion": table.data_version, name: dict(sorted(configs.items()))}


def _metadata_file(tables: Sequence[BrokerTables], join: Callable[[Iterable[int]], int], now_ms: int) -> dict[str, Any]:
    content: dict[str, Any] = {"exportTime": now_ms}
    if any(one.topics for one in tables):
        fields = ("read_queue_nums", "write_queue_nums")
        content[_TOPICS] = _joined([one.topic_configs for one in tables], fields, join)
    if any(one.groups for one in tables):
        content[_GROUPS] = _joined([one.group_configs for one in tables], ("retry_queue_nums",), join)
    return content


def _joined(
    tables: Sequence[Mapping[str, Config]], fields: Sequence[str], join: Callable[[Iterable[int]], int]
) -> dict[str, Config]:
    """One table of all: the last broker's configurations, with these fields joined."""
    found: dict[str, Config] = {}
    for name, config in (each for table in tables for each in table.items()):
        if (old := found.get(name)) is not None:
            nums: dict[str, Any] = {field: join((getattr(old, field), getattr(config, field))) for field in fields}
            config = msgspec.structs.replace(config, **nums)
        found[name] = config
    return dict(sorted(found.items()))


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
    where: Replicas,
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
    targets.check_one_of(where.broker_addr, where.cluster_name)
    if where.cluster_name is None:
        names = {addr: admin.broker_config(addr).get("brokerName", "null") for addr in where.addrs(admin)}
    else:
        brokers = targets.cluster(admin, where.cluster_name)
        names = {addr: broker.broker_name for broker in brokers for addr in targets.replicas_of_all([broker])}
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
