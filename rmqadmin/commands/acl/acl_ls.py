"""``acl ls``: lists users' permissions."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.core import targets
from rmqadmin.core.access.acls import Acls, BrokerAcls


def acl_ls(
    call: Call,
    user: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Only users with this in their names.")] = None,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    resource: Annotated[
        str | None, typer.Option("--resource", metavar="TEXT", help="Only resources with this in their names.")
    ] = None,
) -> Acls:
    """Each broker keeps its own ACL. Users without any entry are not shown.

    Examples:
      rmqadmin acl ls
      rmqadmin acl ls alice -c DefaultCluster --resource Topic:
    """
    who = None if user is None else user.strip()
    what = None if resource is None else resource.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    answers = call.answers.of(lambda addr: call.admin.acls(addr, who, what), addrs)
    return Acls([BrokerAcls(addr, acls) for addr, acls in answers.items()])
