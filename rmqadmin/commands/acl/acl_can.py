"""``acl can``: tells whether a user may do something, why, and by which entry."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import UserName
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core import targets
from rmqadmin.core.access.foretold import AskedAction, ForetoldAccess, access_question, foretell


def acl_can(
    call: Call,
    user: UserName,
    action: Annotated[
        AskedAction, Value.ACTION, typer.Argument(metavar="ACTION", case_sensitive=False, help="One action.")
    ],
    resource: Annotated[
        str, Value.RESOURCE, typer.Argument(metavar="RESOURCE", help="Topic:, Group: or Cluster: and a name.")
    ],
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    source: Annotated[
        str | None,
        Value.NAME,
        typer.Option("--from", metavar="ADDRESS", help="The user's address, as the broker sees it."),
    ] = None,
) -> ForetoldAccess:
    """Computed from each broker's users, policies and settings; nothing is tried. Apache's brokers decide alike.
    Actions: Pub, Sub, Create, Update, Delete, Get, List. Exit status 0: every broker says yes. 1: one does not.

    Examples:
      rmqadmin acl can alice Pub Topic:OrderTopic
      rmqadmin acl can alice Sub Group:OrderGroup -c DefaultCluster --from 10.0.0.5
    """
    question = access_question(user, action, resource, source)
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    return ForetoldAccess(targets.ask_each(lambda addr: foretell(call.admin, addr, question), addrs))
