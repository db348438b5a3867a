"""``clusterList``: shows the brokers of all clusters and their state."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import java_bool
from rmqadmin.core.results import R, ResultOf, Row, doc, first_if_all, some_failed
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.broker_state import BrokerRow, Replica, ask_replica, broker_row, replicas_of
from rmqproto.codes import PERM_READ_WRITE
from rmqproto.errors import RocketMQError

_MS_PER_HOUR = 3_600_000


_MQADMIN_HEAD = "{:22}  {:22}  {:4}  {:22} {:16}  {:>16}  {:>30}  {:22}  {:11}  {:12}  {:8}  {:10}\n"


_MQADMIN_LINE = "{:22}  {:22}  {:<4}  {:22} {:16}  {:>16}  {:>30}  {:22}  {:>11}  {:12}  {:8}  {:>10}\n"


class _Brokers(ResultOf[R], frozen=True):
    replicas: list[Replica]

    def problem(self) -> str | None:
        return some_failed([replica.error for replica in self.replicas], "broker")

    def cause(self) -> RocketMQError | None:
        return first_if_all([replica.failure for replica in self.replicas])


class Brokers(_Brokers[BrokerRow], frozen=True):
    """Without -m: state and load of every broker."""

    now_ms: int = 0
    perms: Mapping[str, int] = {}
    """What the name server lets clients do with the topics of brokers, by name, if that is less than read and write."""

    def rows(self) -> Sequence[BrokerRow]:
        return [broker_row(replica, self.perms.get(replica.broker_name)) for replica in self.replicas]

    def mqadmin_text(self) -> str:
        heads = ["#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)", "#OutTPS(LOAD)"]
        heads += ["#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED"]
        return _MQADMIN_HEAD.format(*heads) + "".join(_mqadmin_line(replica, self.now_ms) for replica in self.replicas)


def _mqadmin_line(replica: Replica, now_ms: int) -> str:
    """mqadmin's line. Unknown values are blank, or 0 for numbers; POP's acknowledgements are N if unknown."""

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


class DayCounts(_Brokers[DayCountRow], frozen=True):
    """With -m: messages of yesterday and today."""

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
    more_stats: Annotated[bool, option("-m", "--moreStats", "Show message counts of yesterday and today.")] = False,
    cluster_name: Annotated[str | None, Value.CLUSTER, option("-c", "--clusterName", "This cluster only.")] = None,
) -> Brokers | DayCounts:
    """One row a broker, slaves too. A broker that does not answer has a row that says why.

    rmqadmin clusterList
    rmqadmin clusterList -m -c DefaultCluster
    rmqadmin clusterList --output wide --watch
    """
    if cluster_name is not None:
        targets.cluster(call.admin, cluster_name)  # an unknown cluster is an error that lists the known ones
    info = call.admin.cluster_info()
    call.remember("cluster", info.cluster_addr_table)
    call.remember("broker_name", info.broker_addr_table)
    call.remember("broker", (addr for broker in targets.all_brokers(info) for addr in broker.broker_addrs.values()))
    replicas = ask_each(lambda replica: ask_replica(call.admin, replica), replicas_of(info, cluster_name))
    if not replicas:
        call.notice_if_no_broker()
    if more_stats:
        return DayCounts(replicas)
    return Brokers(replicas, call.now_ms(), {} if call.as_mqadmin else _lesser_perms(call, replicas))


def _lesser_perms(call: Call, replicas: Sequence[Replica]) -> dict[str, int]:
    """``Brokers.perms``, by the topics that brokers make for their clusters. Nothing is told of a cluster whose topic
    cannot be looked up."""
    found: dict[str, int] = {}
    for cluster in {replica.cluster for replica in replicas}:
        with contextlib.suppress(RocketMQError):
            for queues in call.admin.topic_route(cluster).queue_datas:
                if queues.perm & PERM_READ_WRITE != PERM_READ_WRITE:
                    found[queues.broker_name] = queues.perm & PERM_READ_WRITE
    return found
