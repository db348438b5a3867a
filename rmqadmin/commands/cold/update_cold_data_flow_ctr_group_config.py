"""``updateColdDataFlowCtrGroupConfig``: what one group may read of cold data."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out, targets_done
from rmqadmin.options.command_options import BrokerAddr, ClusterName, ConsumerGroup

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def update_cold_data_flow_ctr_group_config(
    call: Call,
    consumer_group: ConsumerGroup,
    threshold: Annotated[int, typer.Option("-v", "--threshold", metavar="BYTES", min=0, help="Limit in a period.")],
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
) -> Changes:
    """Lasts until the broker is started again.

    Examples:
      rmqadmin updateColdDataFlowCtrGroupConfig -c DefaultCluster -g OrderGroup -v 3145728
      rmqadmin updateColdDataFlowCtrGroupConfig -b 127.0.0.1:10911 -g OrderGroup -v 3145728 --dry-run
    """
    group = consumer_group.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    rows = carry_out([_plan(call.admin, addr, group, threshold) for addr in addrs], dry_run=call.dry_run)
    done = "".join(f"updateColdDataFlowCtrGroupConfig success, {addr}\n" for addr in targets_done(rows))
    return Changes(rows, None if call.dry_run else done)


def _plan(admin: AdminClient, addr: str, group: str, limit_bytes: int) -> Step:
    before = admin.cold_data_flow(addr).config_table.get(group)
    changes = [FieldChange("limit_bytes", before, limit_bytes)] if before != limit_bytes else []
    action = "create" if before is None else "change" if changes else "keep"
    return Step(addr, action, changes, partial(admin.set_cold_limit, addr, group, limit_bytes))
