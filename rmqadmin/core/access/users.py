"""Users of brokers: who is there, what a change of one is, and whether a broker checks the users and permissions that
it keeps. It keeps them whether it does or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import KEEP, FieldChange, Step
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import ResultOf, Row, doc, row_of
from rmqadmin.core.servers.broker_answers import ask_each
from rmqproto.access.users import SUBJECT_PREFIX, User, UserStatus, UserType
from rmqproto.bodies.acl import UserAccount
from rmqproto.errors import NotFoundError, RocketMQError, UsageError


class UserRow(Row, frozen=True):
    username: Annotated[str, doc("name of the user", key=True)]
    user_type: Annotated[str | None, doc("Super or Normal")]
    user_status: Annotated[str | None, doc("enable or disable")]
    broker_addr: Annotated[str, doc("address of the broker", apart=True, key=True)]


class Users(ResultOf[UserRow], frozen=True):
    """Users, one row for each broker that has one. Passwords are shown only with --output mqadmin."""

    found: Mapping[str, list[UserAccount]]
    """By the address of the broker."""
    mqadmin_end: str = ""

    def rows(self) -> Sequence[UserRow]:
        return [row_of(UserRow, user, broker_addr=addr) for addr, users in self.found.items() for user in users]

    def mqadmin_text(self) -> str:
        """The users of the first broker that has any; ``mqadmin_end`` takes its address."""
        addr, users = next(((addr, users) for addr, users in self.found.items() if users), ("", []))
        if not users:
            return ""
        heading = _line("#UserName", "#Password", "#UserType", "#UserStatus")
        lines = (_line(user.username, user.password, user.user_type, user.user_status) for user in users)
        return heading + "".join(lines) + self.mqadmin_end.format(addr)


def _line(*cells: str | None) -> str:
    return "{:16}  {:22}  {:22}  {:22}\n".format(*map(java_text, cells))


def account_changes(before: UserAccount | None, after: UserAccount) -> list[FieldChange]:
    """What an update changes, without the password. A field that is None in ``after`` stays."""
    changes = []
    for field in ("user_type", "user_status"):
        old, new = getattr(before, field, None), getattr(after, field)
        if new is not None and old != new:
            changes.append(FieldChange(field, old, new))
    if after.password is not None and (before is None or before.password != after.password):
        changes.append(FieldChange("password", "(old)" if before else None, "(new)"))
    return changes


def username_of(text: str) -> str:
    """The name in ``alice`` or ``User:alice``. UsageError for any other subject."""
    name = text.strip().removeprefix(SUBJECT_PREFIX)
    if not name:
        raise UsageError("the user has no name")
    return name


class UserExistsError(RocketMQError):
    """A user of this name already exists."""


def plan_new_user(admin: AdminClient, addr: str, account: UserAccount, *, may_exist: bool = False) -> Step:
    """Plans a new user. UserExistsError if there is one, unless it ``may_exist``: it is then kept as it is."""
    if admin.account(addr, account.username) is not None:
        if may_exist:
            return Step(addr, KEEP, [], lambda: None)
        raise UserExistsError(
            f"the broker {addr} already has a user {account.username}",
            hint="`rmqadmin updateUser` changes a user. With --if-not-exists this is not an error.",
        )
    act, name = partial(admin.create_user, addr, account), account.username
    return Step(
        addr, "create", account_changes(None, account), act, user_away(addr, name),
        plan_back=lambda admin: [delete_user_in_broker(admin, addr, name)],
    )  # fmt: skip


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
    is_less = account.user_type == UserType.NORMAL or account.user_status == UserStatus.DISABLE
    warnings = lockout_warnings(admin, addr, account.username) if changes and is_less else []
    act = partial(admin.update_user, addr, account)
    step = Step(addr, "change" if changes else KEEP, changes, act, warnings=warnings)
    if account.user_type is not None:
        option, value, kept = "-t", before.user_type, {"user_type": before.user_type}
    else:
        option, value, kept = "-s", before.user_status, {"user_status": before.user_status}
    if account.password is not None or value is None:  # a password must not appear on a screen
        return step
    undo = [["updateUser", "-b", addr, "-u", before.username, option, value]]
    back = UserAccount(username=before.username, **kept)
    return msgspec.structs.replace(step, undo=undo, plan_back=lambda admin: [plan_user(admin, addr, back)])


def delete_user_in_broker(admin: AdminClient, addr: str, username: str) -> Step:
    """Plans the deletion of a user and its ACL. It cannot be undone, because the password must not be written down."""
    account = admin.account(addr, username)
    act = partial(admin.delete_user, addr, username)
    if account is None:
        return Step(addr, KEEP, [], act)
    changes = [FieldChange("user_type", account.user_type, None)]
    return Step(addr, "delete", changes, act, warnings=lockout_warnings(admin, addr, username))


def lockout_warnings(admin: AdminClient, addr: str, username: str) -> list[str]:
    """What to know before a user is deleted, disabled or made a normal one: that a broker which checks its users has
    no other super user who may log in. Nothing is told of a broker that does not list its users."""
    users = map(User.listed, targets.or_none(lambda: admin.users(addr)) or ())
    if [user.name for user in users if user.is_super and user.status is UserStatus.ENABLE] != [username]:
        return []
    config = targets.or_none(lambda: admin.broker_config(addr))
    if config is not None and not switches(config).is_authenticating:
        return []
    return [
        f"{username} is the last super user of {addr} who may log in: afterwards nobody can manage its users until "
        "a restart makes a new one (initAuthenticationUser in docs/users.md)"
    ]


SWITCH_ON = "authenticationEnabled=true and authorizationEnabled=true in its settings and a restart (docs/security.md)"


class Switches(msgspec.Struct, frozen=True):
    """``is_plain``: ACL 1.0, by files of the broker."""

    is_authenticating: bool
    is_authorizing: bool
    is_plain: bool

    @property
    def lack(self) -> str | None:
        """What is not checked, and what follows; None if users and permissions are."""
        if self.is_plain:
            return "ACL 1.0 decides, by files of the broker, and not by these users and permissions"
        if not self.is_authenticating:
            return "authentication is off: whoever reaches the broker may do everything"
        if not self.is_authorizing:
            return "authorization is off: every user may do everything"
        return None


def switches(config: Mapping[str, str]) -> Switches:
    """From a broker's configuration. Apache's brokers return these settings only if they were set."""
    keys = ("authenticationEnabled", "authorizationEnabled", "aclEnable")
    authenticating, authorizing, plain = (config.get(key, "").lower() == "true" for key in keys)
    return Switches(authenticating, authorizing, plain and not authenticating)


def without_effect(admin: AdminClient, addrs: Sequence[str]) -> str | None:
    """Which of these brokers do not check what was changed on them, why, and how to change that; None if all check it.
    A broker that does not show its settings to this client checks who it is."""
    brokers: dict[str, list[str]] = {}
    asked = sorted(set(addrs))
    configs = ask_each(lambda addr: targets.or_none(lambda: admin.broker_config(addr)), asked)
    for addr, config in zip(asked, configs, strict=True):
        if config is not None and (lack := switches(config).lack) is not None:
            brokers.setdefault(lack, []).append(addr)
    if not brokers:
        return None
    told = "; ".join(f"{', '.join(found)}: {lack}" for lack, found in brokers.items())
    return f"this has no effect: {told}. To change that: {SWITCH_ON}"
