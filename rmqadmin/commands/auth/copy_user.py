"""``copyUser``: copies users from one broker to another, with their passwords."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import FromBroker, ToBroker
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.copying import CopiedKind, copy_between
from rmqadmin.core.access.user_changes import user_away
from rmqadmin.core.access.users import account_changes
from rmqadmin.core.changes import Changes, Step, action
from rmqproto.bodies.acl import UserAccount

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def copy_user(
    call: Call,
    from_broker: FromBroker,
    to_broker: ToBroker,
    usernames: Annotated[
        str | None, Value.NAME, typer.Option("-u", "--usernames", metavar="NAME,...", help="These users only.")
    ] = None,
) -> Changes:
    """A user that the other broker already has gets the password, type and status of the first.

    Examples:
      rmqadmin copyUser -f 127.0.0.1:10911 -t 127.0.0.1:10911 --dry-run
      rmqadmin copyUser -f 127.0.0.1:10911 -t 127.0.0.1:10911 -u alice,bob
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
