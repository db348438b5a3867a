"""``createAcl``: creates a user's permissions, on one broker or on all of a cluster."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import Actions, EveryReplica, Resources, SourceIps, Subject, Verdict
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.shared.changing_access import change_access
from rmqadmin.core import targets
from rmqadmin.core.access.acls import plan_acl, wished_acl
from rmqadmin.core.changes import Changes, plan_each


def create_acl(
    call: Call,
    subject: Subject,
    resources: Resources,
    actions: Actions,
    decision: Verdict,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    source_ip: SourceIps = None,
) -> Changes:
    """Adds one entry for each resource. It replaces an entry that the user has for the same resource; other entries
    stay.

    Examples:
      rmqadmin createAcl -c DefaultCluster -s User:alice -r Topic:OrderTopic -a Pub,Sub -d Allow
      rmqadmin createAcl -b 127.0.0.1:10911 -s User:alice -r 'Group:Order*' -a Sub -d Allow -i 10.0.0.0/8 --dry-run
    """
    admin = call.admin
    wished = wished_acl(subject.strip(), resources, actions, decision, source_ip)
    addrs = targets.replicas(admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: plan_acl(admin, addr, wished, admin.create_acl))
    return change_access(call, steps, lambda done: "".join(f"create acl to {addr} success.\n" for addr in done))
