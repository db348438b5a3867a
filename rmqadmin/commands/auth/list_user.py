"""``listUser``: lists the users of a broker, or of all masters of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.core import targets
from rmqadmin.core.access.users import BrokerUsers, Users


def list_user(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    name_filter: Annotated[
        str | None, typer.Option("-f", "--filter", metavar="TEXT", help="Only users with this in their names.")
    ] = None,
) -> Users:
    """With -c, shows the users of every master; mqadmin shows those of the first master that has any. Passwords are
    shown only with --output mqadmin.

    Examples:
      rmqadmin listUser -b 127.0.0.1:10911
      rmqadmin listUser -c DefaultCluster -f ali --output wide
    """
    wanted = None if name_filter is None else name_filter.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    answers = call.answers.of(lambda addr: call.admin.accounts(addr, wanted), addrs)
    found = [BrokerUsers(addr, users) for addr, users in answers.items()]
    return Users(found, "" if cluster_name is None else "get user from {} success.\n")
