"""``removeColdDataFlowCtrGroupConfig``: the limit of all groups holds for a group again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out, targets_done
from rmqadmin.options.command_options import BrokerAddr, ClusterName, ConsumerGroup

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def remove_cold_data_flow_ctr_group_config(
    call: Call, consumer_group: ConsumerGroup, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None
) -> Changes:
    """A group without a limit of its own is not an error, as in mqadmin.

    Examples:
      rmqadmin removeColdDataFlowCtrGroupConfig -c DefaultCluster -g OrderGroup
      rmqadmin removeColdDataFlowCtrGroupConfig -b 127.0.0.1:10911 -g OrderGroup --dry-run
    """
    group = consumer_group.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    if not call.dry_run:
        call.confirm(f"This removes the limit of {group} from {len(addrs)} brokers.", group)
    rows = carry_out([_plan(call.admin, addr, group) for addr in addrs], dry_run=call.dry_run)
    done = "".join(f"remove broker cold read threshold success, {addr}\n" for addr in targets_done(rows))
    return Changes(rows, None if call.dry_run else done)


def _plan(admin: AdminClient, addr: str, group: str) -> Step:
    before = admin.cold_data_flow(addr).config_table.get(group)
    changes = [] if before is None else [FieldChange("limit_bytes", before, None)]
    return Step(addr, "delete" if changes else "keep", changes, partial(admin.remove_cold_limit, addr, group))
