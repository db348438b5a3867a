"""``snapshot save``: saves a broker's complete state."""

from __future__ import annotations

from functools import partial

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.cli.shared.taking_back import SnapshotName
from rmqadmin.core.changes import REPLACE, Changes, Step, carry_out
from rmqadmin.core.servers.own_requests import meant_brokers, own_answer


def snapshot_save(
    call: Call, name: SnapshotName, broker_addr: BrokerAddr = None, cluster_name: NamedCluster = None
) -> Changes:
    """Keeps topics, groups, offsets and messages, delayed and timed ones included, and replaces an older snapshot of
    that name, after the snapshot's name was typed, or with --yes. The broker is away for some tens of milliseconds, and
    clients come back as after a restart.

    Examples:
      rmqadmin snapshot save a-day
      rmqadmin snapshot save a-day -b 127.0.0.1:10911 --dry-run
    """
    admin = call.admin
    steps = []
    for addr in meant_brokers(admin, broker_addr, cluster_name):
        is_there = name in own_answer(partial(admin.snapshots, addr))
        act = partial(own_answer, partial(admin.save_snapshot, addr, name))
        steps.append(Step(addr, REPLACE if is_there else "create", [], act))
    if not call.dry_run and (older := [step.target for step in steps if step.action == REPLACE]):
        call.confirm(f"This replaces the snapshot {name} of {', '.join(older)}.", name)
    return Changes(carry_out(steps, dry_run=call.dry_run))
