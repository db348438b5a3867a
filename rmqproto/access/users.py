"""Users, with the password that signatures are made with (``User``, ``UserType`` and ``UserStatus``, 5.5.0)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from rmqproto.access.resources import by_name
from rmqproto.bodies.acl import UserAccount, UserInfo

SUBJECT_PREFIX = "User:"
"""The prefix of a user's name in a subject."""


class UserType(StrEnum):
    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    ENABLE = "enable"
    DISABLE = "disable"


class User(NamedTuple):
    """``password`` is empty if it is not needed."""

    name: str
    password: str
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    def __repr__(self) -> str:
        return f"User(name={self.name!r}, type={self.type}, status={self.status})"

    @classmethod
    def listed(cls, info: UserInfo) -> User:
        """A user as a broker lists it. Missing fields are as in a new user."""
        type, status = by_name(UserType, info.user_type), by_name(UserStatus, info.user_status)
        return cls(info.username, "", type or UserType.NORMAL, status or UserStatus.ENABLE)

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER

    def body(self) -> UserAccount:
        return UserAccount(
            password=self.password, user_status=self.status.value, user_type=self.type.value, username=self.name
        )


def parse_subject(text: str | None) -> str | None:
    """``User:name`` in Apache's spelling; None if the text names no subject."""
    kind, _, name = (text or "").partition(":")
    return SUBJECT_PREFIX + name if kind.lower() == "user" else None
