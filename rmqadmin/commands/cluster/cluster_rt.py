"""``clusterRT``: measures how long every broker takes to store a message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ProbeCount, ProbeSize, TrueFalse
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core import targets
from rmqadmin.core.messages.probes import (
    COUNT,
    SIZE_BYTES,
    Probe,
    failures,
    mean_ms,
    mean_text,
    probes_cause,
    send_probes,
    shown_mean_ms,
)
from rmqadmin.core.results import Result, Row, doc, first_if_all, some_failed
from rmqadmin.core.topics.routes import writable_queues
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_CHINA = timedelta(hours=8)
"""mqadmin writes log times in GMT+8 on every machine."""


class BrokerTimeRow(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name")]
    broker_name: Annotated[str, doc("broker name", key=True)]
    mean_rt_ms: Annotated[
        float | None,
        doc("mean of all but the first of several, in ms; none under --dry-run", vital=True),
    ]
    success_count: Annotated[int, doc("messages that were stored")]
    fail_count: Annotated[int, doc("messages that were not", vital=True)]
    error: Annotated[str | None, doc("why the first of them failed", sparse=True)]


class ProbedBroker(msgspec.Struct, frozen=True):
    """One broker and its test messages. ``failure``: why nothing could be sent."""

    cluster: str
    broker_name: str
    probes: list[Probe]
    failure: RocketMQError | None = None


class BrokerTimes(Result, frozen=True):
    """How long each broker took."""

    row_type: ClassVar[type[Row]] = BrokerTimeRow
    found: list[ProbedBroker]
    count: int
    log_room: str | None
    now_ms: int

    def rows(self) -> Sequence[BrokerTimeRow]:
        return [self._row(one) for one in self.found]

    def _row(self, one: ProbedBroker) -> BrokerTimeRow:
        mean, failed = shown_mean_ms(one.probes), list(failures(one.probes))
        return BrokerTimeRow(
            cluster=one.cluster,
            broker_name=one.broker_name,
            mean_rt_ms=None if mean is None else round(mean, 2),
            success_count=sum(probe.result is not None for probe in one.probes),
            fail_count=self.count if one.failure else len(failed),
            error=str(one.failure) if one.failure else next(iter(failed), None),
        )

    def mqadmin_text(self) -> str:
        if self.log_room is not None:
            moment = (datetime.fromtimestamp(self.now_ms // 1000, UTC) + _CHINA).strftime("%Y-%m-%d %H:%M:%S")
            return "".join(
                f"{moment}|{self.log_room}|{row.cluster}|{row.broker_name}|{round(row.mean_rt_ms or 0)}\n"
                for row in self.rows()
            )
        text = f"{'#Cluster Name':24}  {'#Broker Name':24}  {'#RT':4}  {'#successCount':8}  {'#failCount':8}\n"
        for one, row in zip(self.found, self.rows(), strict=True):
            mean = mean_text(mean_ms(one.probes))
            text += f"{row.cluster:24}  {row.broker_name:24}  {mean:8}  {row.success_count:<16}  {row.fail_count:<16}\n"
        return text

    def problem(self) -> str | None:
        return some_failed([row.error for row in self.rows()], "broker")

    def cause(self) -> RocketMQError | None:
        return first_if_all([one.failure or probes_cause(one.probes) for one in self.found])


def cluster_rt(
    call: Call,
    amount: ProbeCount = COUNT,
    size: ProbeSize = SIZE_BYTES,
    cluster: Annotated[
        str | None, Value.CLUSTER, typer.Option("-c", "--cluster", metavar="CLUSTER", help="This cluster only.")
    ] = None,
    print_log: Annotated[
        TrueFalse,
        typer.Option("-p", "--printLog", case_sensitive=False, help="With --output mqadmin: lines for a log."),
    ] = TrueFalse.FALSE,
    machine_room: Annotated[
        str,
        Value.NAME,
        typer.Option("-m", "--machineRoom", metavar="NAME", help="With -p: the place to name in the lines."),
    ] = "noname",
) -> BrokerTimes:
    """The messages go to the topic that has the broker's name. Runs one round, or more with -i or --watch; mqadmin
    never ends.

    Examples:
      rmqadmin clusterRT -a 5
      rmqadmin clusterRT -a 5 -c DefaultCluster --watch 10
      rmqadmin clusterRT -a 5 -p true -m east --output mqadmin
    """
    info = call.admin.cluster_info()
    if cluster is not None:
        targets.cluster(call.admin, cluster)  # an unknown cluster is an error that lists the known ones
    names = [
        (name, broker_name)
        for name, members in sorted(info.cluster_addr_table.items())
        if cluster is None or name == cluster.strip()
        for broker_name in sorted(members)
    ]
    found = [_probed(call.admin, name, broker, amount, size, call.dry_run) for name, broker in names]
    return BrokerTimes(found, amount, machine_room if print_log is TrueFalse.TRUE else None, call.now_ms())


def _probed(admin: AdminClient, cluster: str, broker_name: str, count: int, size: int, dry_run: bool) -> ProbedBroker:
    try:
        queues = writable_queues(admin.topic_route(broker_name), broker_name)
    except RocketMQError as error:
        return ProbedBroker(cluster, broker_name, [], error)
    own = [found for found in queues if found[0].broker_name == broker_name] or queues
    return ProbedBroker(cluster, broker_name, send_probes(admin, own, count, size, dry_run=dry_run))
