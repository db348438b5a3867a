"""``copyUser``: copies users from one broker to another, with their passwords."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core.access.user_changes import user_away
from rmqadmin.core.access.users import account_changes
from rmqadmin.core.changes import Changes, Step, action, plan_each
from rmqadmin.options.auth_options import FromBroker, ToBroker
from rmqadmin.shared.changing import change
from rmqclient.addresses import split_address
from rmqproto.bodies.acl import UserAccount
from rmqproto.errors import NotFoundError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def copy_user(
    call: Call,
    from_broker: FromBroker,
    to_broker: ToBroker,
    usernames: Annotated[
        str | None, typer.Option("-u", "--usernames", metavar="NAME,...", help="These users only.")
    ] = None,
) -> Changes:
    """A user that the other broker already has gets the password, type and status of the first.

    Examples:
      rmqadmin copyUser -f 127.0.0.1:10911 -t 127.0.0.1:10911 --dry-run
      rmqadmin copyUser -f 127.0.0.1:10911 -t 127.0.0.1:10911 -u alice,bob
    """
    admin, source, target = call.admin, from_broker.strip(), to_broker.strip()
    for addr in (source, target):
        split_address(addr)
    accounts = admin.accounts(source) if usernames is None else _named(admin, source, usernames)
    if not accounts:
        admin.accounts(target)  # as it is not asked otherwise: a wrong address must not look like success
        call.notice(f"there is no user to copy on {source}")
    by_target = {f"{target} {account.username}": account for account in accounts}

    def text(done: list[str]) -> str:
        copied = [account.username for name, account in by_target.items() if name in done]
        return "".join(f"copy user of {username} from {source} to {target} success.\n" for username in copied)

    return change(call, plan_each(by_target, lambda name: _plan(admin, target, by_target[name])), text)


def _named(admin: AdminClient, addr: str, usernames: str) -> list[UserAccount]:
    found = []
    for name in filter(None, (part.strip() for part in usernames.split(","))):
        account = admin.account(addr, name)
        if account is None:
            raise NotFoundError(f"the broker {addr} has no user {name}")
        found.append(account)
    return found


def _plan(admin: AdminClient, addr: str, account: UserAccount) -> Step:
    before = admin.account(addr, account.username)
    changes = account_changes(before, account)
    act = admin.create_user if before is None else admin.update_user
    back = user_away(addr, account.username) if before is None else None
    return Step(f"{addr} {account.username}", action(before, changes), changes, partial(act, addr, account), back)
