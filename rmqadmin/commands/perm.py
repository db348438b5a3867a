"""Who may read and write: a topic's permission on its brokers, and a broker's write permission at the name servers.

The second takes producers away from a broker, for maintenance: it changes what the name servers answer, for all topics
of the broker at once, until the broker registers something new or is started again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec
import typer

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.changes import Changes, FieldChange, Step, carry_out, targets_done
from rmqadmin.commands.topic_changes import PERM_MAX, read_topic, topic_config_text
from rmqadmin.options import BrokerAddr, BrokerName, ClusterName, Topic
from rmqadmin.output import Format
from rmqadmin.results import Result, Row, doc
from rmqclient.admin import AdminClient
from rmqproto.bodies import TopicConfig
from rmqproto.errors import NotFoundError, RocketMQError, UsageError

# --- updateTopicPerm -------------------------------------------------------------------------------------------------


def update_topic_perm(
    call: Call,
    topic: Topic,
    perm: Annotated[int, typer.Option("-p", "--perm", help="2 write, 4 read, 6 both.")],
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
) -> Changes:
    """Queue counts, order and attributes stay as they are on each broker; mqadmin takes them from the first one.

    Examples:
      rmqadmin updateTopicPerm -c DefaultCluster -t OrderTopic -p 6
      rmqadmin updateTopicPerm -b 127.0.0.1:10911 -t OrderTopic -p 4 --dry-run
    """
    topic = topic.strip()
    if not 0 <= perm <= PERM_MAX:
        raise UsageError(f"topicPermission value: {perm} is invalid.", hint="2 is write, 4 is read, 6 is both.")
    targets.masters(call.admin, broker_addr, cluster_name)  # what is wrong with -b and -c comes first
    route = call.admin.topic_route(topic)
    masters = {broker.broker_addrs[0]: broker for broker in route.broker_datas if 0 in broker.broker_addrs}
    if broker_addr is not None:
        addrs = [addr for addr in masters if addr == broker_addr.strip()]
    else:
        addrs = [addr for addr, broker in masters.items() if broker.cluster == (cluster_name or "").strip()]
    if not addrs:
        where = f"the broker {broker_addr}" if broker_addr is not None else f"the cluster {cluster_name}"
        raise NotFoundError(f"{where} has no master of the topic {topic}", hint=f"Its masters: {', '.join(masters)}.")
    planned = [plan_perm(call.admin, addr, topic, perm) for addr in addrs]
    old = {addr: config.perm for addr, (_, config) in zip(addrs, planned, strict=True)}
    rows = carry_out(call, [step for step, _ in planned])
    return Changes(
        rows, None if call.dry_run else _perm_text(targets_done(rows), old, perm, broker_addr, planned[0][1])
    )


def plan_perm(admin: AdminClient, addr: str, topic: str, perm: int) -> tuple[Step, TopicConfig]:
    """What to do on one broker, and how the topic is there now. NotFoundError where the broker does not know it."""
    before = read_topic(admin, addr, topic)
    if before is None:
        raise NotFoundError(f"the broker {addr} does not know the topic {topic}, though it is in the route")
    changes = [FieldChange("perm", before.perm, perm)] if before.perm != perm else []
    request = msgspec.structs.replace(before, perm=perm, attributes={})  # attributes are changes: none
    return Step(addr, "change" if changes else "keep", changes, lambda: admin.create_topic(addr, request)), before


def _perm_text(done: Sequence[str], old: dict[str, int], perm: int, broker_addr: str | None, was: TopicConfig) -> str:
    if broker_addr is not None and was.perm == perm:
        return "new perm equals to the old one!\n"
    lines = "".join(f"update topic perm from {old[addr]} to {perm} in {addr} success.\n" for addr in done)
    if broker_addr is None:
        return lines
    return f"{lines}{topic_config_text(msgspec.structs.replace(was, perm=perm, attributes={}))}.\n"


# --- wipeWritePerm, addWritePerm -------------------------------------------------------------------------------------


class WritePermRow(Row, frozen=True):
    namesrv_addr: Annotated[str, doc("the name server", key=True)]
    broker_name: Annotated[str, doc("broker name")]
    action: Annotated[str, doc("wipe or add")]
    topic_count: Annotated[int | None, doc("topics of the broker that it found; unknown under --dry-run")]
    done: Annotated[bool, doc("false under --dry-run, and where it failed")]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class WritePerms(Result, frozen=True):
    """What each name server did."""

    row_type: ClassVar[type[Row]] = WritePermRow
    found: list[WritePermRow]

    def rows(self) -> Sequence[WritePermRow]:
        return self.found

    def mqadmin_text(self) -> str | None:
        if not any(row.done or row.error for row in self.found):
            return None
        return "".join(
            f"{row.action} write perm of broker[{row.broker_name}] in name server[{row.namesrv_addr}] "
            + (f"OK, {row.topic_count}\n" if row.done else "Failed\n")
            for row in self.found
        )

    def problem(self) -> str | None:
        failed = [row for row in self.found if row.error is not None]
        return f"{len(failed)} of {len(self.found)} name servers: {failed[0].error}" if failed else None


def wipe_write_perm(call: Call, broker_name: BrokerName) -> WritePerms:
    """Producers turn to other brokers when they next ask for their routes, every 30 s; consumers read on.

    Examples:
      rmqadmin wipeWritePerm -b broker-a --dry-run
      rmqadmin wipeWritePerm -b broker-a --yes
    """
    name = _known(call, broker_name.strip())
    if not call.dry_run:
        call.confirm(f"This takes the write permission from all topics of the broker {name}.", name)
    return _on_each_namesrv(call, name, "wipe", call.admin.wipe_write_perm)


def add_write_perm(call: Call, broker_name: BrokerName) -> WritePerms:
    """Every topic of the broker becomes readable and writable, whatever it was before it was wiped.

    Examples:
      rmqadmin addWritePerm -b broker-a
      rmqadmin addWritePerm -b broker-a --dry-run
    """
    return _on_each_namesrv(call, _known(call, broker_name.strip()), "add", call.admin.add_write_perm)


def _known(call: Call, name: str) -> str:
    """The name, if there is such a broker. NotFoundError; mqadmin, which finds 0 topics, has no such error."""
    names = call.admin.cluster_info().broker_addr_table
    if name not in names and call.format is not Format.MQADMIN:
        raise NotFoundError(f"there is no broker {name}", hint=f"The name server knows: {', '.join(sorted(names))}.")
    return name


def _on_each_namesrv(call: Call, name: str, action: str, act: Callable[[str, str], int]) -> WritePerms:
    rows: list[WritePermRow] = []
    for addr in call.admin.namesrv_addrs:
        count, error = None, None
        if not call.dry_run:
            try:
                count = act(addr, name)
            except RocketMQError as failure:
                error = str(failure)
        rows.append(
            WritePermRow(
                namesrv_addr=addr,
                broker_name=name,
                action=action,
                topic_count=count,
                done=count is not None,
                error=error,
            )
        )
    return WritePerms(rows)
