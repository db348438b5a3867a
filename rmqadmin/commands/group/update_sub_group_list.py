"""``updateSubGroupList``: many consumer groups at once, from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.call import Call
from rmqadmin.command_options import BrokerAddr, ClusterName, ListFile, Replace
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, carry_out, targets_done
from rmqadmin.core.config_lists import ListKind, plan_list, read_entries
from rmqadmin.core.groups.group_config import group_fields
from rmqproto.bodies.groups import SubscriptionGroupConfig

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

GROUPS = ListKind(SubscriptionGroupConfig, "groupName", "subscriptionGroupTable", group_fields)


def update_sub_group_list(
    call: Call,
    filename: ListFile,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    replace: Replace = False,
) -> Changes:
    """The file holds a list of objects with groupName and any other field of a group's configuration, by the names that
    getConsumerConfig --output mqadmin shows, or what exportMetadata wrote. What an object leaves out stays as it is.

    Examples:
      rmqadmin updateSubGroupList -c DefaultCluster -f groups.json --dry-run
      rmqadmin updateSubGroupList -b 127.0.0.1:10911 -f groups.json
    """
    admin = call.admin
    entries = read_entries(filename.strip(), GROUPS)
    addrs = targets.masters(admin, broker_addr, cluster_name)
    steps = [
        plan_list(GROUPS, entries, addr, _groups(admin, addr), admin.create_groups, replace=replace) for addr in addrs
    ]
    rows = carry_out(steps, dry_run=call.dry_run)
    what = "group" if cluster_name is None else "subscription group"
    done = targets_done(rows)
    text = "".join(
        f"submit batch of {what} config to {addr} success, please check the result later.\n" for addr in done
    )
    return Changes(rows, None if call.dry_run else text)


def _groups(admin: AdminClient, addr: str) -> dict[str, SubscriptionGroupConfig]:
    return admin.all_groups(addr).subscription_group_table
