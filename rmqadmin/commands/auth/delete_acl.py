"""``deleteAcl``: deletes a user's permissions for one resource, or for all."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, Subject
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing_access import change_access
from rmqadmin.core import targets
from rmqadmin.core.access.acls import delete_acl_in_broker
from rmqadmin.core.changes import Changes, plan_each
from rmqproto.wording import counted


def delete_acl(
    call: Call,
    subject: Subject,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    resource: Annotated[
        str | None,
        Value.NAME,
        typer.Option("-r", "--resources", metavar="TYPE:NAME", help="The entry of this resource only."),
    ] = None,
) -> Changes:
    """The user stays. Each broker keeps its own ACL.

    Examples:
      rmqadmin deleteAcl -c DefaultCluster -s User:alice -r Topic:OrderTopic
      rmqadmin deleteAcl -b 127.0.0.1:10911 -s User:alice --dry-run
    """
    admin, who = call.admin, subject.strip()
    what = None if resource is None else resource.strip()
    addrs = targets.replicas(admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: delete_acl_in_broker(admin, addr, who, what))
    if not call.dry_run:
        scope = "the ACL" if what is None else f"the entry {what} of the ACL"
        call.confirm(f"This deletes {scope} of {who} from {counted(len(steps), 'broker')}.", who)
    return change_access(call, steps, lambda done: "".join(f"delete acl to {addr} success.\n" for addr in done))
