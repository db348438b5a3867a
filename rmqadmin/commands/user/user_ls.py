"""``user ls``: lists the users of brokers."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.core import targets
from rmqadmin.core.access.users import BrokerUsers, Users


def user_ls(
    call: Call,
    name: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Only users with this in their names.")] = None,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
) -> Users:
    """Each broker keeps its own users. No password is shown.

    Examples:
      rmqadmin user ls
      rmqadmin user ls ali -c DefaultCluster --output wide
    """
    wanted = None if name is None else name.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    answers = call.answers.of(lambda addr: call.admin.accounts(addr, wanted), addrs)
    return Users([BrokerUsers(addr, users) for addr, users in answers.items()])
