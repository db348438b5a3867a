"""``deleteSubGroup``: a group on one broker, or on a cluster together with its retry and dead-letter topics.

mqadmin takes the routes of those two topics from all clusters at once; here only from the cluster that is named.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.changes import Changes, Step, carry_out, differences, targets_done
from rmqadmin.commands.group_changes import group_fields
from rmqadmin.commands.topic_changes import read_topic
from rmqadmin.options import BrokerAddr, ClusterName, GroupName, TrueFalse
from rmqadmin.output import Format
from rmqclient.admin import AdminClient
from rmqclient.admin.nameservers import ORDER_TOPIC_NAMESPACE
from rmqproto.bodies import SubscriptionGroupConfig
from rmqproto.errors import NotFoundError
from rmqproto.names import dlq_topic, retry_topic


def delete_sub_group(
    call: Call,
    group_name: GroupName,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    remove_offset: Annotated[
        TrueFalse | None,
        typer.Option("-r", "--removeOffset", case_sensitive=False, help="Its offsets too. Default: false."),
    ] = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A group that is not there is no error.")] = False,
) -> Changes:
    """With -c its retry topic and its dead-letter queue go with it, and the messages in them. A group that is online
    comes back where brokers create groups by themselves.

    Examples:
      rmqadmin deleteSubGroup -c DefaultCluster -g OldGroup
      rmqadmin deleteSubGroup -c DefaultCluster -g OldGroup -r true --dry-run
      rmqadmin deleteSubGroup -b 127.0.0.1:10911 -g OldGroup --if-exists --yes
    """
    group = group_name.strip()
    clean_offset = remove_offset is TrueFalse.TRUE
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    before = {addr: call.admin.all_groups(addr).subscription_group_table.get(group) for addr in addrs}
    if not any(before.values()) and not if_exists and call.format is not Format.MQADMIN:
        where = addrs[0] if cluster_name is None else cluster_name.strip()
        raise NotFoundError(f"there is no group {group} on {where}", hint="--if-exists makes this no error.")
    steps = [_delete_group(call.admin, addr, group, clean_offset, config) for addr, config in before.items()]
    if cluster_name is not None:
        for topic in (retry_topic(group), dlq_topic(group)):
            steps += _delete_topic(call.admin, cluster_name.strip(), topic)
    if not call.dry_run:
        what = "" if cluster_name is None else ", its retry topic and its dead-letter queue"
        call.confirm(f"This deletes the group {group}{what} from {len(addrs)} brokers.", group)
    done = set(targets_done(rows := carry_out(call, steps)))
    tail = "" if cluster_name is None else f" in cluster [{cluster_name.strip()}]"
    text = "".join(
        f"delete subscription group [{group}] from broker [{addr}]{tail} success.\n" for addr in addrs if addr in done
    )
    return Changes(rows, None if call.dry_run else text)


def _delete_group(
    admin: AdminClient, addr: str, group: str, clean_offset: bool, before: SubscriptionGroupConfig | None
) -> Step:
    changes = differences(None if before is None else group_fields(before), None)
    return Step(
        addr,
        "delete" if before else "keep",
        changes,
        lambda: admin.delete_group(addr, group, clean_offset=clean_offset),
    )


def _delete_topic(admin: AdminClient, cluster_name: str, topic: str) -> list[Step]:
    """Steps that delete a topic where it is: from masters and slaves, the name servers and their table of orders."""
    replicas = [addr for broker in targets.cluster(admin, cluster_name) for addr in broker.broker_addrs.values()]
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
