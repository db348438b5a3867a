"""``server reset``: takes a broker back to its state at start."""

from __future__ import annotations

from functools import partial

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.cli.shared.taking_back import take_back
from rmqadmin.core.changes import Changes
from rmqadmin.core.servers.own_requests import meant_brokers, own_answer


def server_reset(call: Call, broker_addr: BrokerAddr = None, cluster_name: NamedCluster = None) -> Changes:
    """Deletes topics, groups, offsets and messages, then loads again what `rmqserver --seed` says. Snapshots, rules of
    `fault set` and settings stay. Asks for the broker's name; in a script, --yes is needed.

    Examples:
      rmqadmin server reset --dry-run
      rmqadmin server reset -b 127.0.0.1:10911 --yes
    """
    admin = call.admin
    addrs = meant_brokers(admin, broker_addr, cluster_name)
    for addr in addrs:  # brokers refuse here, before anybody is asked to type a name
        own_answer(partial(admin.snapshots, addr))
    return take_back(call, addrs, "reset", "as at its start", admin.reset_broker)
