"""Users of brokers: first the noun ``user``, then mqadmin's commands."""

import sys
from functools import partial
from getpass import getpass
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import CopiedKind, change_access, copy_between, line_each, undoable_access
from rmqadmin.cli.options.auth_options import (
    FromBroker,
    IfExists,
    IfNoUser,
    IsSuper,
    PasswordStdin,
    ToBroker,
    UserKind,
    UserName,
    Username,
)
from rmqadmin.cli.options.command_options import Masters, Replicas
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.output.terminal_guard import guard_terminal
from rmqadmin.core.access.users import (
    Users,
    account_changes,
    delete_user_in_broker,
    plan_new_user,
    plan_user,
    user_away,
)
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import Changes, Step, action, all_keep, plan_each
from rmqproto.access.users import UserStatus, UserType
from rmqproto.bodies.acl import UserAccount
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.wording import counted

_HINT = "--password-stdin reads it from standard input; on a terminal, without either, it is asked for."


def given_password(call: Call, password: str | None, from_stdin: bool, username: str) -> str:
    """The password from ``-p``, from the first line of standard input, or typed twice by the user. UsageError if both
    options are given, if nobody can be asked, and if what was read or typed is empty or differs."""
    if from_stdin:
        return stdin_password(password)
    if password is not None:
        return password.strip()
    if not call.can_ask:
        raise UsageError("Missing required option: -p/--password", hint=_HINT)
    guard_terminal()
    asked = getpass(f"Password of {username}: ").strip()
    if asked != getpass("Once more: ").strip():
        raise UsageError("the two passwords differ", hint="Nothing was changed.")
    return _checked(asked)


def stdin_password(password: str | None) -> str:
    """The password for ``--password-stdin``; ``password`` is the value of ``-p``, if given as well. UsageError."""
    if password is not None:
        raise UsageError("give -p or --password-stdin, not both")
    if sys.stdin.isatty():  # the program seemed to hang, and what was typed was seen
        guard_terminal()
        return _checked(getpass("Password: ").strip())
    return _checked(sys.stdin.readline().removeprefix("\ufeff").strip())


def _checked(password: str) -> str:
    if not password:
        raise UsageError("the password is empty", hint=_HINT)
    return password


def user_ls(
    call: Call,
    where: Masters,
    name: Annotated[str | None, argument("Only users with this in their names.", metavar="[TEXT]")] = None,
) -> Users:
    """Each broker keeps its own users. No password is shown.

    rmqadmin user ls
    rmqadmin user ls ali -c DefaultCluster --output wide
    """
    return Users(_listed(call, where, name))


def _listed(call: Call, where: Masters, text: str | None) -> dict[str, list[UserAccount]]:
    wanted = None if text is None else text.strip()
    return call.answers.of(lambda addr: call.admin.accounts(addr, wanted), where.addrs(call.admin))


def user_add(
    call: Call,
    name: UserName,
    where: Replicas,
    is_super: IsSuper = False,
    password_stdin: PasswordStdin = False,
    if_not_exists: IfNoUser = False,
) -> Changes:
    """Asks for the password, or reads it from standard input. No option takes it, so it is in no process list and no
    history. `acl grant` says what the user may do. Only brokers with authenticationEnabled and authorizationEnabled
    check either.

      rmqadmin user add alice --password-stdin < secret
      rmqadmin user add alice --if-not-exists --password-stdin < secret
      rmqadmin user add carol -c DefaultCluster --super --password-stdin --dry-run < secret
    """
    account = UserAccount(
        username=name,
        password=given_password(call, None, password_stdin, name),
        user_type=UserType.SUPER if is_super else UserType.NORMAL,
    )
    addrs = where.addrs(call.admin)
    return undoable_access(
        call, plan_each(addrs, lambda addr: plan_new_user(call.admin, addr, account, may_exist=if_not_exists))
    )


def user_edit(
    call: Call,
    name: UserName,
    where: Replicas,
    user_type: Annotated[UserType | None, option("--type", "Super users may do everything.")] = None,
    user_status: Annotated[UserStatus | None, option("--status", "Whether it may log in.")] = None,
    ask_password: Annotated[bool, option("--password", "Ask for a new password.")] = False,
    password_stdin: PasswordStdin = False,
) -> Changes:
    """Settings that are not given stay as they are. No option takes the password itself.

    rmqadmin user edit alice --status disable --dry-run
    rmqadmin user edit alice -c DefaultCluster --password-stdin < secret
    """
    wanted = [UserAccount(username=name, user_type=user_type)] if user_type is not None else []
    if user_status is not None:
        wanted.append(UserAccount(username=name, user_status=user_status))
    if ask_password or password_stdin:
        wanted.append(UserAccount(username=name, password=given_password(call, None, password_stdin, name)))
    if not wanted:
        raise UsageError("nothing to change", hint="Give --type, --status, --password or --password-stdin.")
    addrs = where.addrs(call.admin)
    steps: list[Step] = []
    for account in wanted:  # one step for each, so that each has its own undo
        steps += plan_each(addrs, partial(plan_user, call.admin, account=account))
    return undoable_access(call, steps)


def user_rm(call: Call, name: UserName, where: Replicas, if_exists: IfExists = False) -> Changes:
    """This cannot be undone: the password is saved nowhere. `user edit --status disable` also locks the user out.

    rmqadmin user rm alice --dry-run
    rmqadmin user rm alice -c DefaultCluster --if-exists --yes
    """
    addrs = where.addrs(call.admin)
    steps = plan_each(addrs, lambda addr: delete_user_in_broker(call.admin, addr, name))
    if all_keep(steps) and not if_exists:
        raise NotFoundError(f"no broker has a user {name}", hint="With --if-exists this is not an error.")
    question = (f"This deletes the user {name} from {counted(len(addrs), 'broker')}.", name)
    return undoable_access(call, steps, None if all_keep(steps) else question)


def list_user(
    call: Call,
    where: Masters,
    name_filter: Annotated[
        str | None, option("-f", "--filter", "Only users with this in their names.", metavar="TEXT")
    ] = None,
) -> Users:
    """With -c, shows the users of every master; mqadmin shows those of the first master that has any. Passwords are
    shown only with --output mqadmin.

      rmqadmin listUser -b 127.0.0.1:10911
      rmqadmin listUser -c DefaultCluster -f ali --output wide
    """
    return Users(_listed(call, where, name_filter), "" if where.cluster_name is None else "get user from {} success.\n")


def get_user(call: Call, username: Username, where: Masters) -> Users:
    """The password is shown only with --output mqadmin. Each broker keeps its own users.

    rmqadmin getUser -b 127.0.0.1:10911 -u alice
    rmqadmin getUser -c DefaultCluster -u alice --output wide
    """
    answers = call.answers.of(lambda addr: call.admin.account(addr, username), where.addrs(call.admin))
    found = {addr: [account] for addr, account in answers.items() if account is not None}
    if not found and not call.as_mqadmin:
        raise NotFoundError(f"no broker has a user {username}", hint="`rmqadmin listUser` lists the users.")
    return Users(found)


def create_user(
    call: Call,
    username: Username,
    where: Replicas,
    password: Annotated[
        str | None, Value.SECRET, option("-p", "--password", "Its password. Default: ask for it.", metavar="TEXT")
    ] = None,
    password_stdin: PasswordStdin = False,
    user_type: UserKind = None,
    if_not_exists: IfNoUser = False,
) -> Changes:
    """Each broker keeps its own users. If one of several brokers fails, the others still get the user. A password given
    with -p is visible in the process list and the shell's history; one that is asked for or read is not.

      rmqadmin createUser -c DefaultCluster -u alice -p secret
      rmqadmin createUser -b 127.0.0.1:10911 -u root -p secret -t Super --dry-run
    """
    account = UserAccount(
        username=username,
        password=given_password(call, password, password_stdin, username),
        user_type=user_type,
    )
    addrs = where.addrs(call.admin)
    steps = plan_each(addrs, lambda addr: plan_new_user(call.admin, addr, account, may_exist=if_not_exists))
    return change_access(call, steps, line_each("create user to {} success.\n"))


def update_user(
    call: Call,
    username: Username,
    where: Replicas,
    password: Annotated[
        str | None, Value.SECRET, option("-p", "--password", "Its new password.", metavar="TEXT")
    ] = None,
    password_stdin: PasswordStdin = False,
    user_type: Annotated[UserType | None, option("-t", "--userType", "Its new type.")] = None,
    user_status: Annotated[UserStatus | None, option("-s", "--userStatus", "Whether it may log in.")] = None,
) -> Changes:
    """Takes one of -p, --password-stdin, -t and -s; the rest of the user stays as it is.

    rmqadmin updateUser -c DefaultCluster -u alice -p new-secret
    rmqadmin updateUser -b 127.0.0.1:10911 -u alice -s disable --dry-run
    """
    if password_stdin:
        password = stdin_password(password)
    if sum(given is not None for given in (password, user_type, user_status)) != 1:
        raise UsageError("give one of -p, -t and -s", hint="Each call changes one of password, type and status.")
    account = UserAccount(
        username=username,
        password=None if password is None else password.strip(),
        user_type=user_type,
        user_status=user_status,
    )
    steps = plan_each(where.addrs(call.admin), lambda addr: plan_user(call.admin, addr, account))
    return change_access(call, steps, line_each("update user to {} success.\n"))


def delete_user(
    call: Call,
    username: Username,
    where: Replicas,
    if_exists: Annotated[bool, option("--if-exists", "Do not fail if the user does not exist.")] = False,
) -> Changes:
    """Its ACL is deleted too. Each broker keeps its own users.

    rmqadmin deleteUser -c DefaultCluster -u alice --dry-run
    rmqadmin deleteUser -b 127.0.0.1:10911 -u alice --if-exists --yes
    """
    admin = call.admin
    addrs = where.addrs(admin)
    steps = plan_each(addrs, lambda addr: delete_user_in_broker(admin, addr, username))
    if all_keep(steps) and not if_exists and not call.as_mqadmin:
        raise NotFoundError(f"no broker has a user {username}", hint="With --if-exists this is not an error.")
    question = (f"This deletes the user {username} from {counted(len(addrs), 'broker')}.", username)
    return change_access(call, steps, line_each("delete user to {} success.\n"), question)


def copy_user(
    call: Call,
    from_broker: FromBroker,
    to_broker: ToBroker,
    usernames: Annotated[
        str | None, Value.NAME, option("-u", "--usernames", "These users only.", metavar="NAME,...")
    ] = None,
) -> Changes:
    """A user that the other broker already has gets the password, type and status of the first.

    rmqadmin copyUser -f 127.0.0.1:10911 -t 127.0.0.1:10921 --dry-run
    rmqadmin copyUser -f 127.0.0.1:10911 -t 127.0.0.1:10921 -u alice,bob
    """
    return copy_between(call, _USER, from_broker, to_broker, usernames)


def _plan(admin: AdminClient, addr: str, account: UserAccount) -> Step:
    before = admin.account(addr, account.username)
    changes = account_changes(before, account)
    act = admin.create_user if before is None else admin.update_user
    back = user_away(addr, account.username) if before is None else None
    return Step(f"{addr} {account.username}", action(before, changes), changes, partial(act, addr, account), back)


_USER: CopiedKind[UserAccount] = CopiedKind(
    noun="user",
    noun_of_one="user",
    name_of=lambda account: account.username,
    all=lambda admin, addr: admin.accounts(addr),
    one=lambda admin, addr, username: admin.account(addr, username),
    plan=_plan,
)
