"""How much cold data groups read, and may read."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change, line_each
from rmqadmin.cli.options.command_options import LONG, ConsumerGroup, Masters, Replicas
from rmqadmin.cli.options.common_options import option
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import KEEP, Changes, Step, action, differences, plan_each
from rmqadmin.core.mqadmin_text import fastjson_pretty
from rmqadmin.core.results import TIME, ResultOf, Row, doc
from rmqadmin.core.servers.server_configs import replica_headings
from rmqproto.bodies.replication import ColdDataFlow
from rmqproto.times import mqadmin_time
from rmqproto.wording import counted

_FIELD = "limit_bytes"


def plan_cold_limit(admin: AdminClient, addr: str, group: str, limit_bytes: int | None) -> Step:
    """Plans a limit. None removes it, so that the limit of all groups applies again."""
    before = admin.cold_data_flow(addr).config_table.get(group)
    changes = differences(*({} if value is None else {_FIELD: value} for value in (before, limit_bytes)))
    where = ["-b", addr, "-g", group]
    back = (
        ["removeColdDataFlowCtrGroupConfig", *where]
        if before is None
        else ["updateColdDataFlowCtrGroupConfig", *where, "-v", str(before)]
    )
    if limit_bytes is None:
        return Step(addr, "delete" if changes else KEEP, changes, partial(admin.remove_cold_limit, addr, group), [back])
    return Step(addr, action(before, changes), changes, partial(admin.set_cold_limit, addr, group, limit_bytes), [back])


_READ, _LAST_READ_MS, _CREATED_MS = "coldAcc", "lastColdReadTimeMills", "createTimeMills"


class ColdReadRow(Row, frozen=True):
    broker_addr: Annotated[str, doc("address of the broker", key=True)]
    group: Annotated[str | None, doc("consumer group; none if no group has read or has a limit", key=True)]
    read_bytes: Annotated[int | None, doc("what it has read of cold data in this period", vital=True)]
    limit_bytes: Annotated[int | None, doc("its own limit; none if the limit of all groups holds for it", vital=True)]
    last_read_ms: Annotated[int | None, TIME, doc("when it last read cold data")]
    group_limit_bytes: Annotated[int, doc("limit of a group without one of its own", wide=True)]
    broker_read_bytes: Annotated[int, doc("what all groups have read", wide=True)]
    broker_limit_bytes: Annotated[int, doc("limit of all groups together", wide=True)]


class AskedFlow(msgspec.Struct, frozen=True):
    addr: str
    heading: str
    flow: ColdDataFlow


class ColdReads(ResultOf[ColdReadRow], frozen=True):
    """Reads of cold data, one row a broker and group."""

    found: list[AskedFlow]

    def rows(self) -> Sequence[ColdReadRow]:
        return [
            _row(one, group)
            for one in self.found
            for group in (sorted({*one.flow.runtime_table, *one.flow.config_table}) or (None,))
        ]

    def mqadmin_text(self) -> str:
        return "".join(f" {one.heading}{fastjson_pretty(_with_texts(one.flow))}\n" for one in self.found)


def _row(one: AskedFlow, group: str | None) -> ColdReadRow:
    read: Mapping[str, Any] = one.flow.runtime_table.get(group or "", {})
    return ColdReadRow(
        broker_addr=one.addr,
        group=group,
        read_bytes=read.get(_READ),
        limit_bytes=one.flow.config_table.get(group or ""),
        last_read_ms=read.get(_LAST_READ_MS),
        group_limit_bytes=one.flow.cg_cold_read_threshold,
        broker_read_bytes=one.flow.global_acc,
        broker_limit_bytes=one.flow.global_cold_read_threshold,
    )


def _with_texts(flow: ColdDataFlow) -> ColdDataFlow:
    """The flow with times as text, as mqadmin shows them."""
    table = {
        group: {
            _READ: read.get(_READ),
            "lastColdReadTimeFormat": mqadmin_time(read.get(_LAST_READ_MS, 0), milliseconds=False),
            "createTimeFormat": mqadmin_time(read.get(_CREATED_MS, 0), milliseconds=False),
        }
        for group, read in flow.runtime_table.items()
    }
    return msgspec.structs.replace(flow, runtime_table=table)


def get_cold_data_flow_ctr_info(call: Call, where: Replicas) -> ColdReads:
    """Cold data is data no longer in memory. If coldDataFlowControlEnable=true, a broker holds back pulls of groups
    that read too much of it.

      rmqadmin getColdDataFlowCtrInfo -b 127.0.0.1:10911
      rmqadmin getColdDataFlowCtrInfo -c DefaultCluster --output wide
    """
    headings = dict(replica_headings(call.admin, where.broker_addr, where.cluster_name))
    answers = call.answers.of(call.admin.cold_data_flow, headings)
    return ColdReads([AskedFlow(addr, headings[addr], flow) for addr, flow in answers.items()])


def update_cold_data_flow_ctr_group_config(
    call: Call,
    consumer_group: ConsumerGroup,
    threshold: Annotated[int, LONG, option("-v", "--threshold", "Limit per period.", metavar="BYTES", min=0)],
    where: Masters,
) -> Changes:
    """The limit lasts until the broker restarts.

    rmqadmin updateColdDataFlowCtrGroupConfig -c DefaultCluster -g OrderGroup -v 3145728
    rmqadmin updateColdDataFlowCtrGroupConfig -b 127.0.0.1:10911 -g OrderGroup -v 3145728 --dry-run
    """
    addrs = where.addrs(call.admin)
    steps = plan_each(addrs, lambda addr: plan_cold_limit(call.admin, addr, consumer_group, threshold))
    return change(call, steps, line_each("updateColdDataFlowCtrGroupConfig success, {}\n"))


def remove_cold_data_flow_ctr_group_config(call: Call, consumer_group: ConsumerGroup, where: Masters) -> Changes:
    """As in mqadmin, it is no error if the group has no limit of its own.

    rmqadmin removeColdDataFlowCtrGroupConfig -c DefaultCluster -g OrderGroup
    rmqadmin removeColdDataFlowCtrGroupConfig -b 127.0.0.1:10911 -g OrderGroup --dry-run
    """
    addrs = where.addrs(call.admin)
    steps = plan_each(addrs, lambda addr: plan_cold_limit(call.admin, addr, consumer_group, None))
    call.confirm(f"This removes the limit of {consumer_group} from {counted(len(addrs), 'broker')}.", consumer_group)
    return change(call, steps, line_each("remove broker cold read threshold success, {}\n"))
