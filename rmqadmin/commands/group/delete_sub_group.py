"""``deleteSubGroup``: a group on one broker, or on a cluster together with its retry and dead-letter topics.

mqadmin removes the routes of those two topics from all clusters; here only from the named cluster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, WayBack, differences
from rmqadmin.core.config_lists import GROUPS, entry_of
from rmqadmin.core.groups.group_config import group_fields
from rmqadmin.core.topics.topic_config import read_topic
from rmqadmin.options.command_options import BrokerAddr, ClusterName, GroupName, TrueFalse
from rmqadmin.shared.changing import change
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import NotFoundError
from rmqproto.names import ORDER_TOPIC_NAMESPACE, dlq_topic, retry_topic

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


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
    """With -c its retry topic and its dead-letter queue are deleted too, with the messages in them. If the group is
    online, brokers that create groups by themselves create it again.

    Examples:
      rmqadmin deleteSubGroup -c DefaultCluster -g OldGroup
      rmqadmin deleteSubGroup -c DefaultCluster -g OldGroup -r true --dry-run
      rmqadmin deleteSubGroup -b 127.0.0.1:10911 -g OldGroup --if-exists --yes
    """
    group = group_name.strip()
    clean_offset = remove_offset is TrueFalse.TRUE
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    before = {addr: call.admin.all_groups(addr).subscription_group_table.get(group) for addr in addrs}
    if not any(before.values()) and not if_exists and not call.as_mqadmin:
        where = addrs[0] if cluster_name is None else cluster_name.strip()
        raise NotFoundError(f"there is no group {group} on {where}", hint="With --if-exists this is not an error.")
    steps = [_delete_group(call.admin, addr, group, clean_offset, config) for addr, config in before.items()]
    if cluster_name is not None:
        for topic in (retry_topic(group), dlq_topic(group)):
            steps += _delete_topic(call.admin, cluster_name.strip(), topic)
    if not call.dry_run:
        what = "" if cluster_name is None else ", its retry topic and its dead-letter queue"
        call.confirm(f"This deletes the group {group}{what} from {len(addrs)} brokers.", group)
    tail = "" if cluster_name is None else f" in cluster [{cluster_name.strip()}]"
    line = f"delete subscription group [{group}] from broker [{{}}]{tail} success.\n"
    return change(call, steps, lambda done: "".join(line.format(addr) for addr in addrs if addr in done))


def _delete_group(
    admin: AdminClient, addr: str, group: str, clean_offset: bool, before: SubscriptionGroupConfig | None
) -> Step:
    changes = differences(None if before is None else group_fields(before), None)
    return Step(
        addr,
        "delete" if before else "keep",
        changes,
        lambda: admin.delete_group(addr, group, clean_offset=clean_offset),
        None if before is None else WayBack(GROUPS.section, {group: entry_of(GROUPS, before)}),
    )


def _delete_topic(admin: AdminClient, cluster_name: str, topic: str) -> list[Step]:
    """Steps that delete a topic where it is: from masters and slaves, the name servers and their table of orders."""
    replicas = targets.replicas(admin, None, cluster_name)
    steps = [
        Step(f"{addr} {topic}", "delete", [], partial(admin.delete_topic_in_broker, addr, topic))
        for addr in replicas
        if read_topic(admin, addr, topic) is not None
    ]
    if targets.find_route(admin, topic) is not None:
        steps += [
            Step(f"{addr} {topic}", "delete", [], partial(_forget_topic, admin, addr, cluster_name, topic))
            for addr in admin.namesrv_addrs
        ]
    return steps


def _forget_topic(admin: AdminClient, namesrv_addr: str, cluster_name: str, topic: str) -> None:
    admin.delete_topic_in_namesrv(namesrv_addr, topic, cluster_name)
    admin.delete_kv(namesrv_addr, ORDER_TOPIC_NAMESPACE, topic)
