"""``snapshot restore``: takes a broker back to a snapshot."""

from __future__ import annotations

from functools import partial

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.cli.shared.taking_back import SnapshotName, take_back
from rmqadmin.core.changes import Changes
from rmqadmin.core.servers.own_requests import meant_brokers, own_answer
from rmqproto.errors import NotFoundError


def snapshot_restore(
    call: Call, name: SnapshotName, broker_addr: BrokerAddr = None, cluster_name: NamedCluster = None
) -> Changes:
    """Everything made or sent since the snapshot is lost. The snapshot stays. The broker is away for some tens of
    milliseconds, and clients come back as after a restart. Asks for the broker's name; in a script, --yes is needed.

    Examples:
      rmqadmin snapshot restore a-day --dry-run
      rmqadmin snapshot restore a-day --yes
    """
    admin = call.admin
    addrs = meant_brokers(admin, broker_addr, cluster_name)
    for addr in addrs:
        names = own_answer(partial(admin.snapshots, addr))
        if name not in names:
            known = ", ".join(names) or "none"
            raise NotFoundError(f"{addr} has no snapshot {name}", hint=f"It has: {known}.")
    return take_back(call, addrs, "restore", f"as in {name}", lambda addr: admin.restore_snapshot(addr, name))
