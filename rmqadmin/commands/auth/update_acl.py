"""``updateAcl``: changes a user's permissions, on one broker or on all of a cluster."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import Actions, EveryReplica, Resources, SourceIps, Subject, Verdict
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.shared.changing_access import change_access
from rmqadmin.core import targets
from rmqadmin.core.access.acls import plan_acl, wished_acl
from rmqadmin.core.changes import Changes, plan_each


def update_acl(
    call: Call,
    subject: Subject,
    resources: Resources,
    actions: Actions,
    decision: Verdict,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    source_ip: SourceIps = None,
) -> Changes:
    """Sets one entry for each resource; the entries of other resources stay. Brokers treat it as createAcl.

    Examples:
      rmqadmin updateAcl -c DefaultCluster -s User:alice -r Topic:OrderTopic -a Pub,Sub -d Allow
      rmqadmin updateAcl -b 127.0.0.1:10911 -s User:alice -r 'Group:Order*' -a Sub -d Allow -i 10.0.0.0/8 --dry-run
    """
    admin = call.admin
    wished = wished_acl(subject.strip(), resources, actions, decision, source_ip)
    addrs = targets.replicas(admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: plan_acl(admin, addr, wished, admin.update_acl))
    return change_access(call, steps, lambda done: "".join(f"update acl to {addr} success.\n" for addr in done))
