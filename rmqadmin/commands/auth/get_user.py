"""``getUser``: shows one user, on each broker that has it."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import Username
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.core import targets
from rmqadmin.core.access.users import BrokerUsers, Users
from rmqproto.errors import NotFoundError


def get_user(call: Call, username: Username, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None) -> Users:
    """The password is shown only with --output mqadmin. Each broker keeps its own users.

    Examples:
      rmqadmin getUser -b 127.0.0.1:10911 -u alice
      rmqadmin getUser -c DefaultCluster -u alice --output wide
    """
    name = username.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    answers = call.answers.of(lambda addr: call.admin.account(addr, name), addrs)
    found = [BrokerUsers(addr, [account]) for addr, account in answers.items() if account is not None]
    if not found and not call.as_mqadmin:
        raise NotFoundError(f"no broker has a user {name}", hint="`rmqadmin listUser` lists the users.")
    return Users(found)
