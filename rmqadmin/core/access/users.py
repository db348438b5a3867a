"""The users that brokers keep: as rows, without passwords, and as Apache's text, which shows passwords in clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from rmqadmin.core.changes import FieldChange
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import Result, Row, doc
from rmqproto.access.users import SUBJECT_PREFIX
from rmqproto.bodies.acl import UserAccount
from rmqproto.errors import UsageError


class UserRow(Row, frozen=True):
    username: Annotated[str, doc("name of the user", key=True)]
    user_type: Annotated[str | None, doc("Super or Normal")]
    user_status: Annotated[str | None, doc("enable or disable")]
    broker_addr: Annotated[str, doc("address of the broker", apart=True, key=True)]


class BrokerUsers(msgspec.Struct, frozen=True):
    """The users of one broker."""

    broker_addr: str
    users: list[UserAccount]


class Users(Result, frozen=True):
    """Users, one row for each broker that has one. Passwords are shown only with --output mqadmin."""

    row_type: ClassVar[type[Row]] = UserRow
    found: list[BrokerUsers]
    mqadmin_end: str = ""

    def rows(self) -> Sequence[UserRow]:
        return [
            UserRow(
                username=user.username,
                user_type=user.user_type,
                user_status=user.user_status,
                broker_addr=one.broker_addr,
            )
            for one in self.found
            for user in one.users
        ]

    def mqadmin_text(self) -> str:
        """The users of the first broker that has any; ``mqadmin_end`` takes its address."""
        first = next((one for one in self.found if one.users), None)
        if first is None:
            return ""
        heading = _line("#UserName", "#Password", "#UserType", "#UserStatus")
        lines = (_line(user.username, user.password, user.user_type, user.user_status) for user in first.users)
        return heading + "".join(lines) + self.mqadmin_end.format(first.broker_addr)


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
