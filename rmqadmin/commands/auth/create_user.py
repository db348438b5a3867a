"""``createUser``: creates a user on one broker, or on all of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, IfNoUser, PasswordStdin, UserKind, Username
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing_access import change_access
from rmqadmin.cli.shared.passwords import given_password
from rmqadmin.core import targets
from rmqadmin.core.access.user_changes import plan_new_user
from rmqadmin.core.changes import Changes, plan_each
from rmqproto.bodies.acl import UserAccount


def create_user(
    call: Call,
    username: Username,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    password: Annotated[
        str | None,
        Value.SECRET,
        typer.Option("-p", "--password", metavar="TEXT", help="Its password. Default: ask for it."),
    ] = None,
    password_stdin: PasswordStdin = False,
    user_type: UserKind = None,
    if_not_exists: IfNoUser = False,
) -> Changes:
    """Each broker keeps its own users. If one of several brokers fails, the others still get the user. A password given
    with -p is visible in the process list and the shell's history; one that is asked for or read is not.

    Examples:
      rmqadmin createUser -c DefaultCluster -u alice -p secret
      rmqadmin createUser -b 127.0.0.1:10911 -u root -p secret -t Super --dry-run
    """
    account = UserAccount(
        username=username.strip(),
        password=given_password(call, password, password_stdin, username.strip()),
        user_type=user_type,
    )
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: plan_new_user(call.admin, addr, account, may_exist=if_not_exists))
    return change_access(call, steps, lambda done: "".join(f"create user to {addr} success.\n" for addr in done))
