"""The format in which rmqserver keeps users and policies in files: users by name, policies by subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rmqproto.access.policies import Acl, BadPolicy
from rmqproto.access.resources import by_name
from rmqproto.access.users import User, UserStatus, UserType
from rmqproto.bodies.acl import AclInfo, UserAccount
from rmqproto.errors import ProtocolError


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
