"""Plans the creation, change and deletion of users on one broker. Each broker keeps its own users."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.core.access.users import account_changes
from rmqadmin.core.changes import KEEP, FieldChange, Step
from rmqproto.bodies.acl import UserAccount
from rmqproto.errors import NotFoundError, RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class UserExistsError(RocketMQError):
    """A user of this name already exists."""


def plan_new_user(admin: AdminClient, addr: str, account: UserAccount, *, may_exist: bool = False) -> Step:
    """Plans a new user. UserExistsError if there is one of that name, unless it ``may_exist``: then it is kept as it
    is."""
    if admin.account(addr, account.username) is not None:
        if may_exist:
            return Step(addr, KEEP, [], lambda: None)
        raise UserExistsError(
            f"the broker {addr} already has a user {account.username}",
            hint="`rmqadmin updateUser` changes a user. With --if-not-exists this is not an error.",
        )
    undo = user_away(addr, account.username)
    return Step(addr, "create", account_changes(None, account), partial(admin.create_user, addr, account), undo)


def user_away(addr: str, username: str) -> list[list[str]]:
    """The commands that undo the creation of a user."""
    return [["deleteUser", "-b", addr, "-u", username]]


def plan_user(admin: AdminClient, addr: str, account: UserAccount) -> Step:
    """Plans a change of a user. Fields that are None in ``account`` stay. NotFoundError if there is no such user."""
    before = admin.account(addr, account.username)
    if before is None:
        raise NotFoundError(
            f"the broker {addr} has no user {account.username}", hint=f"`rmqadmin listUser -b {addr}` lists its users."
        )
    changes = account_changes(before, account)
    undo = _way_back(addr, before, account)
    return Step(addr, "change" if changes else "keep", changes, partial(admin.update_user, addr, account), undo)


def _way_back(addr: str, before: UserAccount, after: UserAccount) -> list[list[str]] | None:
    """The commands that undo the change. None if the password changed: it must not appear on a screen."""
    if after.password is not None:
        return None
    option, value = ("-t", before.user_type) if after.user_type is not None else ("-s", before.user_status)
    return None if value is None else [["updateUser", "-b", addr, "-u", before.username, option, value]]


def delete_user_in_broker(admin: AdminClient, addr: str, username: str) -> Step:
    """Plans the deletion of a user and its ACL. It cannot be undone, because the password must not be written down."""
    account = admin.account(addr, username)
    changes = [] if account is None else [FieldChange("user_type", account.user_type, None)]
    return Step(addr, "delete" if account else "keep", changes, partial(admin.delete_user, addr, username))
