"""``exportConfigs``: exports the important settings of every master, and the size of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ClusterName
from rmqadmin.cli.options.export_options import ExportFolder
from rmqadmin.core import targets
from rmqadmin.core.metadata.exports import export
from rmqadmin.core.results import Result, Row, doc

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


class ExportedConfigs(Result, frozen=True):
    """Settings of masters."""

    row_type: ClassVar[type[Row]] = ExportedConfigRow
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

    Examples:
      rmqadmin exportConfigs -c DefaultCluster
      rmqadmin exportConfigs -c DefaultCluster -f export
    """
    admin = call.admin
    brokers = targets.named_cluster(admin, cluster_name)
    masters = {broker.broker_name: broker.master_addr for broker in brokers if broker.master_addr}
    answers = targets.ask_each(admin.broker_config, list(masters.values()))
    configs = {
        name: {key: answer[key] for key in KEYS if key in answer} for name, answer in zip(masters, answers, strict=True)
    }
    scale = ClusterScale(
        namesrv_count=len(admin.namesrv_addrs),
        master_count=len(masters),
        slave_count=sum(len(broker.broker_addrs) for broker in brokers) - len(masters),
    )
    path = export(file_path, call.as_mqadmin, "configs.json", lambda: _file(configs, scale), call.notice)
    return ExportedConfigs(configs, scale, path)


def _file(configs: dict[str, dict[str, str]], scale: ClusterScale) -> dict[str, Any]:
    sizes = {
        "namesrvSize": scale.namesrv_count,
        "masterBrokerSize": scale.master_count,
        "slaveBrokerSize": scale.slave_count,
    }
    properties = {name: dict(sorted(values.items())) for name, values in sorted(configs.items())}
    return {"brokerConfigs": properties, "clusterScale": sizes}
