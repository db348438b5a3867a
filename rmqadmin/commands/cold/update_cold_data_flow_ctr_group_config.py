"""``updateColdDataFlowCtrGroupConfig``: limits how much cold data one group may read."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG, BrokerAddr, ClusterName, ConsumerGroup
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, plan_each
from rmqadmin.core.servers.cold_limits import plan_cold_limit


def update_cold_data_flow_ctr_group_config(
    call: Call,
    consumer_group: ConsumerGroup,
    threshold: Annotated[
        int, LONG, typer.Option("-v", "--threshold", metavar="BYTES", min=0, help="Limit per period.")
    ],
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
) -> Changes:
    """The limit lasts until the broker restarts.

    Examples:
      rmqadmin updateColdDataFlowCtrGroupConfig -c DefaultCluster -g OrderGroup -v 3145728
      rmqadmin updateColdDataFlowCtrGroupConfig -b 127.0.0.1:10911 -g OrderGroup -v 3145728 --dry-run
    """
    group = consumer_group.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: plan_cold_limit(call.admin, addr, group, threshold))
    line = "updateColdDataFlowCtrGroupConfig success, {}\n"
    return change(call, steps, lambda done: "".join(map(line.format, done)))
