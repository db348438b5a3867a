"""``updateSubGroupList``: creates or changes many consumer groups at once, from a file."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName, ListFile, Replace
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqadmin.core.config_lists import GROUPS, plan_list, read_entries


def update_sub_group_list(
    call: Call,
    filename: ListFile,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    replace: Replace = False,
) -> Changes:
    """The file holds a list of objects with groupName and any other field of a group's configuration, by the names that
    getConsumerConfig --output mqadmin shows, or what exportMetadata wrote. Fields that an object leaves out stay as
    they are.

    Examples:
      rmqadmin updateSubGroupList -c DefaultCluster -f groups.json --dry-run
      rmqadmin updateSubGroupList -b 127.0.0.1:10911 -f groups.json
    """
    admin = call.admin
    entries = read_entries(filename.strip(), GROUPS)
    addrs = targets.masters(admin, broker_addr, cluster_name)

    def plan(addr: str) -> Step:
        before = admin.all_groups(addr).subscription_group_table
        return plan_list(GROUPS, entries, addr, before, admin.create_groups, replace=replace)

    what = "group" if cluster_name is None else "subscription group"
    line = f"submit batch of {what} config to {{}} success, please check the result later.\n"
    return change(call, plan_each(addrs, plan), lambda done: "".join(map(line.format, done)))
