"""``deleteAcl``: what a user may do with one resource, or with all."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.access.acls import delete_acl_in_broker, set_acls
from rmqadmin.core.changes import Changes
from rmqadmin.options.auth_options import EveryReplica, Subject
from rmqadmin.options.command_options import BrokerAddr


def delete_acl(
    call: Call,
    subject: Subject,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    resource: Annotated[
        str | None, typer.Option("-r", "--resources", metavar="TYPE:NAME", help="The entry of this resource only.")
    ] = None,
) -> Changes:
    """The user stays. Each broker keeps its own ACL.

    Examples:
      rmqadmin deleteAcl -c DefaultCluster -s User:alice -r Topic:OrderTopic
      rmqadmin deleteAcl -b 127.0.0.1:10911 -s User:alice --dry-run
    """
    admin, who = call.admin, subject.strip()
    what = None if resource is None else resource.strip()
    steps = [
        delete_acl_in_broker(admin, addr, who, what) for addr in targets.replicas(admin, broker_addr, cluster_name)
    ]
    if not call.dry_run:
        scope = "the ACL" if what is None else f"the entry {what} of the ACL"
        call.confirm(f"This deletes {scope} of {who} from {len(steps)} brokers.", who)
    return set_acls(steps, "delete acl to {} success.\n", dry_run=call.dry_run)
