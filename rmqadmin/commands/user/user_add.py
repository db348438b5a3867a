"""``user add``: creates a user on all brokers of a cluster, or on one."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, IfNoUser, IsSuper, PasswordStdin, UserName
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.shared.changing_access import undoable_access
from rmqadmin.cli.shared.passwords import given_password
from rmqadmin.core import targets
from rmqadmin.core.access.user_changes import plan_new_user
from rmqadmin.core.changes import Changes, plan_each
from rmqproto.access.users import UserType
from rmqproto.bodies.acl import UserAccount


def user_add(
    call: Call,
    name: UserName,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    is_super: IsSuper = False,
    password_stdin: PasswordStdin = False,
    if_not_exists: IfNoUser = False,
) -> Changes:
    """Asks for the password, or reads it from standard input. No option takes it, so it is in no process list and no
    history. `acl grant` says what the user may do. Only brokers with authenticationEnabled and authorizationEnabled
    check either.

    Examples:
      rmqadmin user add alice --password-stdin < secret
      rmqadmin user add alice --if-not-exists --password-stdin < secret
      rmqadmin user add carol -c DefaultCluster --super --password-stdin --dry-run < secret
    """
    name = name.strip()
    account = UserAccount(
        username=name,
        password=given_password(call, None, password_stdin, name),
        user_type=UserType.SUPER if is_super else UserType.NORMAL,
    )
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    return undoable_access(
        call, plan_each(addrs, lambda addr: plan_new_user(call.admin, addr, account, may_exist=if_not_exists))
    )
