"""Users, with the password that signatures are made with (``User``, ``UserType`` and ``UserStatus``, 5.5.0). And what
one may do, and why: the checks of ``DefaultAuthenticationHandler`` on the user and of ``AclAuthorizationHandler`` on
the policies. A broker decides by it, and tools predict a broker's decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from rmqproto.access.policies import Acl, BadPolicy, PolicyEntry
from rmqproto.access.resources import Action, PolicyDecision, Resource, by_name
from rmqproto.bodies.acl import AclInfo, UserAccount, UserInfo
from rmqproto.errors import ProtocolError

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


# --- what a user may do ----------------------------------------------------------------------------------------------

NO_MATCH = "no matched policies."
IS_DENIED = "the decision is deny."


class Judgement(NamedTuple):
    """``refusal`` is the broker's answer, empty if the user is allowed. ``entry`` is the entry that decided; None if
    none of the user's matches, and for super users."""

    refusal: str
    entry: PolicyEntry | None = None

    @property
    def is_allowed(self) -> bool:
        return not self.refusal


def barred(name: str, user: User | None) -> str:
    """Why this user may not make any request; empty if there is no such reason. ``user`` is None for an unknown
    name."""
    if user is None:
        return f"{SUBJECT_PREFIX}{name} is not found."
    return f"{SUBJECT_PREFIX}{name} is disabled." if user.status is UserStatus.DISABLE else ""


def judge(user: User, acl: Acl | None, resource: Resource, actions: Sequence[Action], source_ip: str) -> Judgement:
    """Whether a user that is not barred may do one of the actions, from an address. ``acl`` is None if the user has no
    policies."""
    if user.is_super:
        return Judgement("")
    entry = acl.decide(resource, actions, source_ip) if acl is not None else None
    if entry is not None and entry.decision is PolicyDecision.ALLOW:
        return Judgement("", entry)
    who = f"{SUBJECT_PREFIX}{user.name} has no permission to access {resource.key} from {source_ip}"
    return Judgement(f"{who}, {NO_MATCH if entry is None else IS_DENIED}", entry)


# --- as rmqserver keeps them in files: users by name, policies by subject --------------------------------------------


def users_untrusted(document: Mapping[str, object]) -> dict[str, User]:
    """The users by name. ProtocolError, which shows no secret, if ``document`` is not a table of users."""
    users = (_user_untrusted(value, name) for name, value in _members_untrusted(document, "users"))
    return {user.name: user for user in users}


def acls_untrusted(document: Mapping[str, object]) -> dict[str, Acl]:
    """The policies by subject. ProtocolError if ``document`` is not a table of policies."""
    acls = {}
    for subject, value in _members_untrusted(document, "acls"):
        try:
            acls[subject] = Acl(msgspec.convert(value, AclInfo, strict=False).policies)
        except (msgspec.ValidationError, BadPolicy) as error:
            raise ProtocolError(f"policies of {subject!r}: {error}") from None
    return acls


def _members_untrusted(document: Mapping[str, object], name: str) -> Iterable[tuple[str, object]]:
    members = document.get(name) or {}
    if not isinstance(members, dict):
        raise ProtocolError(f"{name} is not a table")
    return members.items()


def _user_untrusted(value: object, name: str) -> User:
    try:
        account = msgspec.convert(value, UserAccount, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"user {name!r}: {error}") from None
    type, status = by_name(UserType, account.user_type), by_name(UserStatus, account.user_status)
    if not account.username.strip() or not account.password or type is None or status is None:
        raise ProtocolError(f"user {name!r}: name, password, type and status are needed")
    return User(account.username, account.password, type, status)
