"""``updateUser``: changes the password, type or status of a user."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, PasswordStdin, Username
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing_access import change_access
from rmqadmin.cli.shared.passwords import stdin_password
from rmqadmin.core import targets
from rmqadmin.core.access.user_changes import plan_user
from rmqadmin.core.changes import Changes, plan_each
from rmqproto.access.users import UserStatus, UserType
from rmqproto.bodies.acl import UserAccount
from rmqproto.errors import UsageError


def update_user(
    call: Call,
    username: Username,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    password: Annotated[
        str | None, Value.SECRET, typer.Option("-p", "--password", metavar="TEXT", help="Its new password.")
    ] = None,
    password_stdin: PasswordStdin = False,
    user_type: Annotated[
        UserType | None, typer.Option("-t", "--userType", case_sensitive=False, help="Its new type.")
    ] = None,
    user_status: Annotated[
        UserStatus | None, typer.Option("-s", "--userStatus", case_sensitive=False, help="Whether it may log in.")
    ] = None,
) -> Changes:
    """Takes one of -p, --password-stdin, -t and -s; the rest of the user stays as it is.

    Examples:
      rmqadmin updateUser -c DefaultCluster -u alice -p new-secret
      rmqadmin updateUser -b 127.0.0.1:10911 -u alice -s disable --dry-run
    """
    if password_stdin:
        password = stdin_password(password)
    if sum(given is not None for given in (password, user_type, user_status)) != 1:
        raise UsageError("give one of -p, -t and -s", hint="Each call changes one of password, type and status.")
    account = UserAccount(
        username=username.strip(),
        password=None if password is None else password.strip(),
        user_type=user_type,
        user_status=user_status,
    )
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: plan_user(call.admin, addr, account))
    return change_access(call, steps, lambda done: "".join(f"update user to {addr} success.\n" for addr in done))
