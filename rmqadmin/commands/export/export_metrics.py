"""``exportMetrics``: the load and size of every master of a cluster."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ClusterName, ExportFolder
from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import read_clients
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.servers.exports import TOPIC_PUT, day_count, export, read_stats, user_groups, user_topics
from rmqproto.bodies.routes import BrokerData
from rmqproto.codes import VERSION, version_name
from rmqproto.ha import MASTER_ID
from rmqproto.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC

_CPU_KEY = "clientCallbackExecutorThreads"
"""The setting that mqadmin uses as the number of processors."""


class MetricsRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    version: Annotated[str | None, doc("its release")]
    in_tps: Annotated[float, doc("messages stored a second")]
    out_tps: Annotated[float, doc("messages handed to consumers a second")]
    transaction_in_tps: Annotated[float, doc("half messages stored a second", wide=True)]
    delayed_in_tps: Annotated[float, doc("messages of delay levels stored a second", wide=True)]
    in_yesterday: Annotated[int, doc("messages stored yesterday", minor=True)]
    out_yesterday: Annotated[int, doc("messages handed to consumers yesterday", minor=True)]
    transaction_in_day: Annotated[int, doc("half messages of the last 24 hours", wide=True)]
    delayed_in_day: Annotated[int, doc("messages of delay levels of the last 24 hours", wide=True)]
    message_size_bytes: Annotated[float | None, doc("mean size of a stored message")]
    commit_log_disk_ratio: Annotated[float | None, doc("how full the disk of the commit log is, 0 to 1", vital=True)]
    consume_queue_disk_ratio: Annotated[float | None, doc("the same of the consume queues", wide=True)]
    topic_count: Annotated[int, doc("topics that are not the system's")]
    group_count: Annotated[int, doc("consumer groups that are not the system's")]
    client_versions: Annotated[list[str], doc("languages and releases of consumers that are online", wide=True)]


class MetricsTotals(Row, frozen=True):
    in_tps: Annotated[float, doc("of all masters")]
    out_tps: Annotated[float, doc("of all masters")]
    in_yesterday: Annotated[int, doc("of all masters")]
    out_yesterday: Annotated[int, doc("of all masters")]


class Measured(msgspec.Struct, frozen=True):
    """One master: the values shown, and the texts that mqadmin's file has instead of numbers."""

    row: MetricsRow
    info: dict[str, str]
    cpu_count: str | None


class Metrics(ResultOf[MetricsRow], frozen=True):
    """Load and size of masters."""

    found: list[Measured]
    path: str | None

    def rows(self) -> Sequence[MetricsRow]:
        return [one.row for one in self.found]

    def summary(self) -> MetricsTotals:
        rows = self.rows()
        return MetricsTotals(
            in_tps=sum(row.in_tps for row in rows),
            out_tps=sum(row.out_tps for row in rows),
            in_yesterday=sum(row.in_yesterday for row in rows),
            out_yesterday=sum(row.out_yesterday for row in rows),
        )

    def mqadmin_text(self) -> str | None:
        return None if self.path is None else f"export {self.path} success"


def export_metrics(call: Call, cluster_name: ClusterName = None, file_path: ExportFolder = None) -> Metrics:
    """With -f, also writes DIR/metrics.json in mqadmin's form. --output mqadmin always writes that file, as mqadmin
    does.

      rmqadmin exportMetrics -c DefaultCluster --output wide
      rmqadmin exportMetrics -c DefaultCluster -f export
    """
    masters = {one.master_addr: one for one in targets.named_cluster(call.admin, cluster_name) if one.master_addr}
    found = [*call.answers.of(lambda addr: _measured(call.admin, masters[addr], addr), masters).values()]
    path = export(file_path, call.as_mqadmin, "metrics.json", lambda: _file(found), call.notice)
    return Metrics(found, path)


def _measured(admin: AdminClient, broker: BrokerData, addr: str) -> Measured:
    info, config = admin.broker_runtime_info(addr), admin.broker_config(addr)
    replica = Replica(broker.cluster or "", broker.broker_name, MASTER_ID, addr, info)
    half, delayed = (read_stats(admin, addr, TOPIC_PUT, topic) for topic in (TRANSACTION_HALF_TOPIC, SCHEDULE_TOPIC))
    groups = user_groups(admin, addr).subscription_group_table
    row = MetricsRow(
        broker_name=broker.broker_name,
        version=info.get("brokerVersionDesc"),
        in_tps=replica.number("putTps") or 0.0,
        out_tps=replica.number("getTransferredTps") or 0.0,
        transaction_in_tps=half.stats_minute.tps if half else 0.0,
        delayed_in_tps=delayed.stats_minute.tps if delayed else 0.0,
        in_yesterday=replica.yesterday("Put") or 0,
        out_yesterday=replica.yesterday("Get") or 0,
        transaction_in_day=day_count(half) if half else 0,
        delayed_in_day=day_count(delayed) if delayed else 0,
        message_size_bytes=replica.number("putMessageAverageSize"),
        commit_log_disk_ratio=replica.number("commitLogDiskRatio"),
        consume_queue_disk_ratio=replica.number("consumeQueueDiskRatio"),
        topic_count=len(user_topics(admin, addr).topic_config_table),
        group_count=len(groups),
        client_versions=_client_versions(admin, broker, sorted(groups)),
    )
    return Measured(row, info, config.get(_CPU_KEY))


def _client_versions(admin: AdminClient, broker: BrokerData, groups: Sequence[str]) -> list[str]:
    """The versions as mqadmin writes them: ``JAVA%V5_5_0``. A group whose clients are unknown is left out, as in
    mqadmin."""
    found = ask_each(lambda group: targets.or_none(lambda: read_clients(admin, [broker], group)), groups)
    clients = [client for one in found if one is not None for client in one.connections.values()]
    return sorted({f"{client.language}%{version_name(client.version)}" for client in clients})


# --- mqadmin's file --------------------------------------------------------------------------------------------------


def _file(found: Sequence[Measured]) -> dict[str, Any]:
    rows = [one.row for one in found]
    reports = {one.row.broker_name: _report(one) for one in found}
    return {
        "evaluateReport": dict(sorted(reports.items())),
        "totalData": {
            "totalTps": {
                "totalNormalInTps": sum(row.in_tps for row in rows),
                "totalNormalOutTps": sum(row.out_tps for row in rows),
                "totalTransInTps": sum(row.transaction_in_tps for row in rows),
                "totalScheduleInTps": sum(row.delayed_in_tps for row in rows),
            },
            "totalOneDayNum": {
                "normalOneDayInNum": sum(row.in_yesterday for row in rows),
                "normalOneDayOutNum": sum(row.out_yesterday for row in rows),
                "transOneDayInNum": sum(row.transaction_in_day for row in rows),
                "scheduleOneDayInNum": sum(row.delayed_in_day for row in rows),
            },
        },
    }


def _report(one: Measured) -> dict[str, Any]:
    row, info = one.row, one.info
    return {
        "runtimeEnv": {"cpuNum": one.cpu_count, "totalMemKBytes": info.get("totalMemKBytes")},
        "runtimeQuota": {
            "diskRatio": {name: info.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
            "tps": {
                "normalInTps": row.in_tps,
                "normalOutTps": row.out_tps,
                "transInTps": row.transaction_in_tps,
                "scheduleInTps": row.delayed_in_tps,
            },
            "oneDayNum": {
                "normalOneDayInNum": row.in_yesterday,
                "normalOneDayOutNum": row.out_yesterday,
                "transOneDayInNum": row.transaction_in_day,
                "scheduleOneDayInNum": row.delayed_in_day,
            },
            "messageAverageSize": info.get("putMessageAverageSize"),
            "topicSize": row.topic_count,
            "groupSize": row.group_count,
        },
        "runtimeVersion": {"rocketmqVersion": version_name(VERSION), "clientInfo": row.client_versions},
    }
