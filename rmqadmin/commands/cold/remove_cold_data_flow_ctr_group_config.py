"""``removeColdDataFlowCtrGroupConfig``: removes a group's own limit, so that the limit of all groups applies again."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName, ConsumerGroup
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, plan_each
from rmqadmin.core.servers.cold_limits import plan_cold_limit
from rmqproto.wording import counted


def remove_cold_data_flow_ctr_group_config(
    call: Call, consumer_group: ConsumerGroup, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None
) -> Changes:
    """As in mqadmin, it is no error if the group has no limit of its own.

    Examples:
      rmqadmin removeColdDataFlowCtrGroupConfig -c DefaultCluster -g OrderGroup
      rmqadmin removeColdDataFlowCtrGroupConfig -b 127.0.0.1:10911 -g OrderGroup --dry-run
    """
    group = consumer_group.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: plan_cold_limit(call.admin, addr, group, None))
    if not call.dry_run:
        call.confirm(f"This removes the limit of {group} from {counted(len(addrs), 'broker')}.", group)
    line = "remove broker cold read threshold success, {}\n"
    return change(call, steps, lambda done: "".join(map(line.format, done)))
