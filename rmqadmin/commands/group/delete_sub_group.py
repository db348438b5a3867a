"""``deleteSubGroup``: deletes a group on one broker, or on a cluster together with its retry and dead-letter topics.

mqadmin removes the routes of those two topics from all clusters; this command only from the named cluster.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName, GroupName, TrueFalse
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, all_keep, plan_each
from rmqadmin.core.groups.group_changes import delete_group_in_broker, delete_topics_of_group, letters_lost
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted


def delete_sub_group(
    call: Call,
    group_name: GroupName,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    remove_offset: Annotated[
        TrueFalse | None,
        typer.Option("-r", "--removeOffset", case_sensitive=False, help="Also delete its offsets. Default: false."),
    ] = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail if the group does not exist.")] = False,
) -> Changes:
    """With -c, also deletes its retry topic and its dead-letter queue, with their messages. If the group is online,
    brokers that create groups by themselves create it again.

    Examples:
      rmqadmin deleteSubGroup -c DefaultCluster -g OldGroup
      rmqadmin deleteSubGroup -c DefaultCluster -g OldGroup -r true --dry-run
      rmqadmin deleteSubGroup -b 127.0.0.1:10911 -g OldGroup --if-exists --yes
    """
    group = group_name.strip()
    clean_offset = remove_offset is TrueFalse.TRUE
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: delete_group_in_broker(call.admin, addr, group, clean_offset=clean_offset))
    if all_keep(steps) and not if_exists and not call.as_mqadmin:
        where = addrs[0] if cluster_name is None else cluster_name.strip()
        raise NotFoundError(f"there is no group {group} on {where}", hint="With --if-exists this is not an error.")
    if cluster_name is not None:
        steps += delete_topics_of_group(call.admin, group, cluster_name.strip())
    what, lost = "", None
    if cluster_name is not None:
        what = ", its retry topic and its dead-letter queue"
        lost = letters_lost(call.admin, group, cluster_name.strip()) if call.dry_run or call.can_ask else None
    if not call.dry_run:
        where = f"from {counted(len(addrs), 'broker')}" + (f": {lost}" if lost is not None else "")
        call.confirm(f"This deletes the group {group}{what} {where}.", group)
    elif lost is not None:
        call.notice(lost)
    tail = "" if cluster_name is None else f" in cluster [{cluster_name.strip()}]"
    line = f"delete subscription group [{group}] from broker [{{}}]{tail} success.\n"
    return change(call, steps, lambda done: "".join(line.format(addr) for addr in addrs if addr in done))
