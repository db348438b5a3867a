"""``fault clear``: removes all fault rules."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.core.changes import Changes
from rmqadmin.core.servers.own_requests import meant_brokers, set_faults


def fault_clear(call: Call, broker_addr: BrokerAddr = None, cluster_name: NamedCluster = None) -> Changes:
    """Removes all rules. With -b no name server is asked, so it works while everything fails.

    Examples:
      rmqadmin fault clear
      rmqadmin fault clear -b 127.0.0.1:10911
    """
    return set_faults(call.admin, meant_brokers(call.admin, broker_addr, cluster_name), [], dry_run=call.dry_run)
