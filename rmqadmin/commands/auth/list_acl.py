"""``listAcl``: lists users' permissions, on each broker."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.core import targets
from rmqadmin.core.access.acls import Acls, BrokerAcls


def list_acl(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    subject: Annotated[
        str | None, typer.Option("-s", "--subject", metavar="TEXT", help="Only subjects with this in their names.")
    ] = None,
    resource: Annotated[
        str | None, typer.Option("-r", "--resource", metavar="TEXT", help="Only resources with this in their names.")
    ] = None,
) -> Acls:
    """With -c, asks every master of the cluster. Users without any ACL are not shown.

    Examples:
      rmqadmin listAcl -b 127.0.0.1:10911
      rmqadmin listAcl -c DefaultCluster -s alice -r Topic:
    """
    who = None if subject is None else subject.strip()
    what = None if resource is None else resource.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    answers = call.answers.of(lambda addr: call.admin.acls(addr, who, what), addrs)
    return Acls([BrokerAcls(addr, acls) for addr, acls in answers.items()])
