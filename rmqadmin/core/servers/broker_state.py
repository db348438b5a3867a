"""What brokers say about themselves (28): lists the replicas of every cluster, asks them, and makes rows of the
answers."""

import contextlib
import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.results import TIME, ResultColumn, Row, doc, row_of
from rmqproto.bodies.routes import ClusterInfo
from rmqproto.errors import RocketMQError

_UNITS = {
    "_ms": re.compile(r"(Mills|Ms|TimeMax|Latency999?)$"),
    "_s": re.compile(r"^timerReadBehind$"),
    "_bytes": re.compile(r"(Bytes|SizeTotal|AverageSize)$"),
    "_ratio": re.compile(r"DiskRatio(_.*)?$"),
    "_tps": re.compile(r"Tps$"),
}
"""The units of brokers' state values, by patterns for the values' names."""


class StatusRow(Row, frozen=True):
    broker_addr: Annotated[str, doc("the broker's address", apart=True)]
    name: Annotated[str, doc("what the value is", key=True)]
    value: Annotated[str | int | float, doc("a number if it is one; rates are three: 10 s, 1 min, 10 min", vital=True)]

    def column_of(self, column: ResultColumn) -> ResultColumn:
        """The column for this value: ``bootTimestamp`` and the like are times, where 0 means never. Other names end
        with Apache's word for a unit, which gives the column's unit."""
        if column.name != "value":
            return column
        if self.name.lower().endswith("timestamp"):
            is_moment = isinstance(self.value, int) and self.value not in (0, -1)
            return msgspec.structs.replace(column, is_time=is_moment)
        unit = next((unit for unit, names in _UNITS.items() if names.search(self.name)), "")
        return msgspec.structs.replace(column, name=f"value{unit}")


class Replica(msgspec.Struct, frozen=True):
    """One broker process and what it said about itself (28); if nothing, ``info`` is empty: see ``failure``."""

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    info: Mapping[str, str]
    failure: RocketMQError | None = None

    @property
    def name(self) -> str:
        """``broker-a/0``."""
        return f"{self.broker_name}/{self.broker_id}"

    @property
    def error(self) -> str | None:
        return None if self.failure is None else str(self.failure)

    def number(self, name: str) -> float | None:
        """The value of a key; the first of a rate's three values. None if the broker does not have the key."""
        first = self.info.get(name, "").split()[:1]
        try:
            return float(first[0]) if first else None
        except ValueError:
            return None

    def count(self, name: str) -> int | None:
        found = self.number(name)
        return None if found is None else int(found)

    @property
    def is_serving(self) -> bool | None:
        """Whether it serves, by its own report; None if it does not say. Apache's slaves always report false, because
        ``brokerActive`` means the duties of a master (delayed messages, checks of transactions), which a slave has only
        while it acts as one. Brokers before 5.0 report nothing."""
        active = self.info.get("brokerActive")
        if active is None:
            return None
        return active.lower() == "true" or (None if self.broker_id else False)

    def today(self, direction: str) -> int | None:
        return self._difference(f"msg{direction}TotalTodayNow", f"msg{direction}TotalTodayMorning")

    def yesterday(self, direction: str) -> int | None:
        return self._difference(f"msg{direction}TotalTodayMorning", f"msg{direction}TotalYesterdayMorning")

    def _difference(self, later: str, earlier: str) -> int | None:
        end, begin = self.count(later), self.count(earlier)
        return None if end is None or begin is None else end - begin


class BrokerRow(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name", minor=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_id: Annotated[int, doc("0 is the master", key=True)]
    broker_addr: Annotated[str, doc("address that the broker registered", minor=True)]
    version: Annotated[str | None, doc("release", minor=True)]
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
    page_cache_wait_ms: Annotated[int | None, doc("how long the running append has held the commit log", minor=True)]
    earliest_message_ms: Annotated[int | None, TIME, doc("when the oldest message was stored", minor=True)]
    disk_ratio: Annotated[float | None, doc("how full the disk of the commit log is, 0 to 1", vital=True)]
    active: Annotated[bool | None, doc("whether the broker serves, by itself; unknown of Apache's slaves", vital=True)]
    perm: Annotated[
        int | None,
        doc("what the name server lets clients do, if it is less than read and write: wipeWritePerm", sparse=True),
    ]
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)]


def broker_row(replica: Replica, perm: int | None = None) -> BrokerRow:
    """``perm``: what the name server lets clients do with its topics, if that is less than read and write."""
    earliest_ms = replica.count("earliestMessageTimeStamp")

    def rate(name: str) -> float | None:
        found = replica.number(name)
        return None if found is None else round(found, 2)

    return row_of(
        BrokerRow,
        replica,
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
        active=replica.is_serving,
        perm=perm,
    )


def status_rows(broker_addr: str, info: Mapping[str, str]) -> list[StatusRow]:
    """One broker's state values, by name."""
    rows = []
    for name in sorted(info):
        value: str | int | float = info[name]
        for kind in (float, int):
            with contextlib.suppress(ValueError):
                value = kind(info[name])
        rows.append(StatusRow(broker_addr=broker_addr, name=name, value=value))
    return rows


def replicas_of(info: ClusterInfo, cluster_name: str | None) -> list[Replica]:
    """Every broker process of one cluster or of all, not yet asked."""
    return [
        Replica(cluster, name, broker_id, addr, {})
        for cluster, names in sorted(info.cluster_addr_table.items())
        if cluster_name in (None, cluster)
        for name in sorted(names)
        if name in info.broker_addr_table
        for broker_id, addr in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]


def displaced_replicas(info: ClusterInfo, cluster_name: str | None) -> list[Replica]:
    """Processes whose name and id another has registered later; Apache's name servers do not list them."""
    return [
        Replica(one.cluster, one.broker_name, one.broker_id, one.broker_addr, {})
        for one in info.displaced_brokers or ()
        if cluster_name in (None, one.cluster)
    ]


def ask_replica(admin: AdminClient, replica: Replica) -> Replica:
    """The replica with its answer, or with the error."""
    try:
        return msgspec.structs.replace(replica, info=admin.broker_runtime_info(replica.broker_addr))
    except RocketMQError as error:
        return msgspec.structs.replace(replica, failure=error)
