"""``clusterList``: the brokers of all clusters and how they are doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import msgspec
import typer

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.mqadmin_text import java_bool
from rmqadmin.results import TIME, Result, Row, doc
from rmqclient.admin import AdminClient
from rmqproto.bodies import ClusterInfo
from rmqproto.errors import RocketMQError

_MS_PER_HOUR = 3_600_000
_MQADMIN_HEAD = "{:22}  {:22}  {:4}  {:22} {:16}  {:>16}  {:>30}  {:22}  {:11}  {:12}  {:8}  {:10}\n"
_MQADMIN_LINE = "{:22}  {:22}  {:<4}  {:22} {:16}  {:>16}  {:>30}  {:22}  {:>11}  {:12}  {:8}  {:>10}\n"


class Replica(msgspec.Struct, frozen=True):
    """One broker process and what it said about itself (28); ``info`` is empty where ``error`` says why it did not."""

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    info: Mapping[str, str]
    error: str | None = None

    def number(self, name: str) -> float | None:
        """The value of a key, the first one of a rate's three; None where the broker does not know it."""
        first = self.info.get(name, "").split()[:1]
        try:
            return float(first[0]) if first else None
        except ValueError:
            return None

    def count(self, name: str) -> int | None:
        found = self.number(name)
        return None if found is None else int(found)

    def today(self, direction: str) -> int | None:
        return self._difference(f"msg{direction}TotalTodayNow", f"msg{direction}TotalTodayMorning")

    def yesterday(self, direction: str) -> int | None:
        return self._difference(f"msg{direction}TotalTodayMorning", f"msg{direction}TotalYesterdayMorning")

    def _difference(self, later: str, earlier: str) -> int | None:
        end, begin = self.count(later), self.count(earlier)
        return None if end is None or begin is None else end - begin


class BrokerRow(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name")]
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_id: Annotated[int, doc("0 is the master", key=True)]
    broker_addr: Annotated[str, doc("address that the broker registered")]
    version: Annotated[str | None, doc("release")]
    in_tps: Annotated[float | None, doc("messages stored a second, over 10 s")]
    out_tps: Annotated[float | None, doc("messages handed to consumers a second, over 10 s")]
    send_queue_size: Annotated[int | None, doc("sends that wait for a thread", wide=True)]
    send_queue_wait_ms: Annotated[int | None, doc("how long the first of them has waited", wide=True)]
    pull_queue_size: Annotated[int | None, doc("pulls that wait for a thread", wide=True)]
    pull_queue_wait_ms: Annotated[int | None, doc("how long the first of them has waited", wide=True)]
    ack_queue_size: Annotated[int | None, doc("acknowledgements that wait for a thread", wide=True)]
    ack_queue_wait_ms: Annotated[int | None, doc("how long the first of them has waited", wide=True)]
    timer_behind_s: Annotated[int | None, doc("how far timer delivery lags", wide=True)]
    timer_behind_count: Annotated[int | None, doc("timer messages that are due and not read yet", wide=True)]
    timer_congested_count: Annotated[int | None, doc("timer messages that wait to be delivered", wide=True)]
    page_cache_wait_ms: Annotated[int | None, doc("how long the append that runs now has held the commit log")]
    earliest_message_ms: Annotated[int | None, TIME, doc("when the oldest message was stored")]
    disk_ratio: Annotated[float | None, doc("how full the disk of the commit log is, 0 to 1")]
    active: Annotated[bool | None, doc("whether the broker serves")]
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)]


class _Brokers(Result, frozen=True):
    replicas: list[Replica]

    def problem(self) -> str | None:
        failed = [replica for replica in self.replicas if replica.error is not None]
        if not failed:
            return None
        return f"{len(failed)} of {len(self.replicas)} brokers did not answer: {failed[0].error}"


class Brokers(_Brokers, frozen=True):
    """Without -m: state and load of every broker."""

    row_type: ClassVar[type[Row]] = BrokerRow
    now_ms: int = 0

    def rows(self) -> Sequence[BrokerRow]:
        return [_broker_row(replica) for replica in self.replicas]

    def mqadmin_text(self) -> str:
        heads = ["#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)", "#OutTPS(LOAD)"]
        heads += ["#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED"]
        return _MQADMIN_HEAD.format(*heads) + "".join(_mqadmin_line(replica, self.now_ms) for replica in self.replicas)


def _broker_row(replica: Replica) -> BrokerRow:
    earliest_ms = replica.count("earliestMessageTimeStamp")
    active = replica.info.get("brokerActive")

    def rate(name: str) -> float | None:
        found = replica.number(name)
        return None if found is None else round(found, 2)

    return BrokerRow(
        cluster=replica.cluster,
        broker_name=replica.broker_name,
        broker_id=replica.broker_id,
        broker_addr=replica.broker_addr,
        version=replica.info.get("brokerVersionDesc"),
        in_tps=rate("putTps"),
        out_tps=rate("getTransferredTps"),
        send_queue_size=replica.count("sendThreadPoolQueueSize"),
        send_queue_wait_ms=replica.count("sendThreadPoolQueueHeadWaitTimeMills"),
        pull_queue_size=replica.count("pullThreadPoolQueueSize"),
        pull_queue_wait_ms=replica.count("pullThreadPoolQueueHeadWaitTimeMills"),
        ack_queue_size=replica.count("ackThreadPoolQueueSize"),
        ack_queue_wait_ms=replica.count("ackThreadPoolQueueHeadWaitTimeMills"),
        timer_behind_s=replica.count("timerReadBehind"),
        timer_behind_count=replica.count("timerOffsetBehind"),
        timer_congested_count=replica.count("timerCongestNum"),
        page_cache_wait_ms=replica.count("pageCacheLockTimeMills"),
        earliest_message_ms=earliest_ms if earliest_ms is not None and earliest_ms >= 0 else None,
        disk_ratio=replica.number("commitLogDiskRatio"),
        active=None if active is None else active.lower() == "true",
        error=replica.error,
    )


def _mqadmin_line(replica: Replica, now_ms: int) -> str:
    """What a broker did not say is blank, and its numbers are 0; POP's acknowledgements are N where it has none."""

    def text(name: str, default: str = "") -> str:
        return replica.info.get(name, default)

    def number(name: str) -> float:
        return replica.number(name) or 0.0

    def queue(name: str, default: str = "") -> str:
        size, wait_ms = f"{name}ThreadPoolQueueSize", f"{name}ThreadPoolQueueHeadWaitTimeMills"
        return f"{text(size, default)},{text(wait_ms, default)}ms"

    acks = queue("ack", "N" if replica.info else "")
    earliest_ms = replica.count("earliestMessageTimeStamp")
    cells = (
        replica.cluster,
        replica.broker_name,
        replica.broker_id,
        replica.broker_addr,
        text("brokerVersionDesc"),
        f"{number('putTps'):9.2f}({queue('send')})",
        f"{number('getTransferredTps'):9.2f}({queue('pull')}|{acks})",
        f"{number('timerReadBehind'):.0f}-{number('timerOffsetBehind'):.0f}({number('timerCongestNum') / 10000:.1f}w, "
        f"{number('timerEnqueueTps'):.1f}, {number('timerDequeueTps'):.1f})",
        text("pageCacheLockTimeMills"),
        f"{0.0 if earliest_ms is None else (now_ms - earliest_ms) / _MS_PER_HOUR:.2f}",
        f"{number('commitLogDiskRatio'):.4f}",
        java_bool(text("brokerActive").lower() == "true"),
    )
    return _MQADMIN_LINE.format(*cells)


class DayCountRow(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name")]
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_id: Annotated[int, doc("0 is the master", key=True)]
    in_yesterday: Annotated[int | None, doc("messages stored yesterday")]
    out_yesterday: Annotated[int | None, doc("messages handed to consumers yesterday")]
    in_today: Annotated[int | None, doc("messages stored since midnight, the broker's time")]
    out_today: Annotated[int | None, doc("messages handed to consumers since midnight")]
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)]


class DayCounts(_Brokers, frozen=True):
    """With -m: messages of yesterday and today."""

    row_type: ClassVar[type[Row]] = DayCountRow

    def rows(self) -> Sequence[DayCountRow]:
        return [
            DayCountRow(
                cluster=replica.cluster,
                broker_name=replica.broker_name,
                broker_id=replica.broker_id,
                in_yesterday=replica.yesterday("Put"),
                out_yesterday=replica.yesterday("Get"),
                in_today=replica.today("Put"),
                out_today=replica.today("Get"),
                error=replica.error,
            )
            for replica in self.replicas
        ]

    def mqadmin_text(self) -> str:
        heads = ("#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
        text = f"{'#Cluster Name':16}  {'#Broker Name':32} " + " ".join(f"{head:>14}" for head in heads) + "\n"
        for row in self.rows():
            counts = (row.in_yesterday, row.out_yesterday, row.in_today, row.out_today)
            text += f"{row.cluster:16}  {row.broker_name:32} " + " ".join(f"{count or 0:14}" for count in counts) + "\n"
        return text


def cluster_list(
    call: Call,
    more_stats: Annotated[bool, typer.Option("-m", "--moreStats", help="Messages of yesterday and today.")] = False,
    cluster_name: Annotated[
        str | None, typer.Option("-c", "--clusterName", metavar="CLUSTER", help="This cluster only.")
    ] = None,
) -> Brokers | DayCounts:
    """One row a broker, slaves too. A broker that does not answer has a row that says why; the exit status is then 1.

    Examples:
      rmqadmin clusterList
      rmqadmin clusterList -m -c DefaultCluster
      rmqadmin clusterList --output wide --watch
    """
    if cluster_name is not None:
        targets.cluster(call.admin, cluster_name)  # an unknown one is an error that names those there are
    info = call.admin.cluster_info()
    call.remember("cluster", info.cluster_addr_table)
    call.remember("broker", (addr for broker in targets.all_brokers(info) for addr in broker.broker_addrs.values()))
    wanted = None if cluster_name is None else cluster_name.strip()
    replicas = targets.ask_each(lambda replica: ask_replica(call.admin, replica), replicas_of(info, wanted))
    return DayCounts(replicas) if more_stats else Brokers(replicas, call.now_ms())


def replicas_of(info: ClusterInfo, cluster_name: str | None) -> list[Replica]:
    """Every broker process of one cluster or of all, not asked yet."""
    return [
        Replica(cluster, name, broker_id, addr, {})
        for cluster, names in sorted(info.cluster_addr_table.items())
        if cluster_name in (None, cluster)
        for name in sorted(names)
        if name in info.broker_addr_table
        for broker_id, addr in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]


def ask_replica(admin: AdminClient, replica: Replica) -> Replica:
    """The replica with what it says about itself, or with the error."""
    try:
        return msgspec.structs.replace(replica, info=admin.broker_runtime_info(replica.broker_addr))
    except RocketMQError as error:
        return msgspec.structs.replace(replica, error=str(error))
