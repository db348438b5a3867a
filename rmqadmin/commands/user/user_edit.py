"""``user edit``: changes the password, type or status of a user."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, PasswordStdin, UserName
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.shared.changing_access import undoable_access
from rmqadmin.cli.shared.passwords import given_password
from rmqadmin.core import targets
from rmqadmin.core.access.user_changes import plan_user
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqproto.access.users import UserStatus, UserType
from rmqproto.bodies.acl import UserAccount
from rmqproto.errors import UsageError


def user_edit(
    call: Call,
    name: UserName,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    user_type: Annotated[
        UserType | None, typer.Option("--type", case_sensitive=False, help="Super users may do everything.")
    ] = None,
    user_status: Annotated[
        UserStatus | None, typer.Option("--status", case_sensitive=False, help="Whether it may log in.")
    ] = None,
    ask_password: Annotated[bool, typer.Option("--password", help="Ask for a new password.")] = False,
    password_stdin: PasswordStdin = False,
) -> Changes:
    """Settings that are not given stay as they are. No option takes the password itself.

    Examples:
      rmqadmin user edit alice --status disable --dry-run
      rmqadmin user edit alice -c DefaultCluster --password-stdin < secret
    """
    name = name.strip()
    wanted = [UserAccount(username=name, user_type=user_type)] if user_type is not None else []
    if user_status is not None:
        wanted.append(UserAccount(username=name, user_status=user_status))
    if ask_password or password_stdin:
        wanted.append(UserAccount(username=name, password=given_password(call, None, password_stdin, name)))
    if not wanted:
        raise UsageError("nothing to change", hint="Give --type, --status, --password or --password-stdin.")
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    steps: list[Step] = []
    for account in wanted:  # one step for each, so that each has its own undo
        steps += plan_each(addrs, partial(plan_user, call.admin, account=account))
    return undoable_access(call, steps)
