"""Users and policies (``AdminBrokerProcessor``, 5.5.0). Without authentication anybody may change them,
as with Apache's broker."""

from __future__ import annotations

from typing import NamedTuple

from rmqproto.access.resources import by_name
from rmqproto.access.users import User, UserType, parse_subject
from rmqproto.bodies.acl import AclInfo, UserAccount
from rmqproto.codes import ResponseCode
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.operation import Refused

_ONLY_BY_SUPER = "The super user can only be {} by super user"


class Asker(NamedTuple):
    """Who asks for a change of users: the request's code, and its access key."""

    code: int
    name: str | None


class AuthAdmin:
    def __init__(self, table: AuthTable, settings: AuthSettings):
        self._table = table
        self._unproven_codes = settings.authentication_whitelist if settings.is_authenticating else frozenset()

    # --- users -------------------------------------------------------------------------------------------------------

    def create_user(self, account: UserAccount, asker: Asker) -> None:
        if by_name(UserType, account.user_type) is UserType.SUPER and not self._may_change_super(asker):
            raise Refused(ResponseCode.SYSTEM_ERROR, _ONLY_BY_SUPER.format("create"))
        self._table.create_user(account)

    def update_user(self, account: UserAccount, asker: Asker) -> None:
        if by_name(UserType, account.user_type) is UserType.SUPER and not self._may_change_super(asker):
            raise Refused(ResponseCode.SYSTEM_ERROR, _ONLY_BY_SUPER.format("update"))
        self._check_may_change(asker, self._table.user(account.username))
        self._table.update_user(account)

    def delete_user(self, name: str, asker: Asker) -> None:
        self._check_may_change(asker, self._table.user(name))
        self._table.delete_user(name)

    def user(self, name: str) -> UserAccount | None:
        if not name.strip():
            raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")
        user = self._table.user(name)
        return None if user is None else user.body()

    def users(self, filter: str | None) -> list[UserAccount]:
        return [user.body() for user in self._table.users(_filter(filter))]

    def _may_change_super(self, asker: Asker) -> bool:
        """Whether the request may change super users. One without an access key may: authentication is off then."""
        if asker.code in self._unproven_codes:
            return False
        if not asker.name:
            return True
        user = self._table.user(asker.name)
        if user is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"User:{asker.name} is not found")
        return user.is_super

    def _check_may_change(self, asker: Asker, user: User | None) -> None:
        if user is not None and user.is_super and not self._may_change_super(asker):
            raise Refused(ResponseCode.NO_PERMISSION, _ONLY_BY_SUPER.format("update"))

    # --- policies ----------------------------------------------------------------------------------------------------

    def put_acl(self, subject: str, info: AclInfo | None) -> None:
        """``info``'s own subject takes precedence over ``subject``, as in Apache's broker."""
        if info is None or not info.policies:
            raise Refused(ResponseCode.SYSTEM_ERROR, "The body of acl is null")
        self._table.put_acl(parse_subject(info.subject) or _subject(subject, ResponseCode.SYSTEM_ERROR), info)

    def delete_acl(self, subject: str, policy_type: str | None, resource: str | None) -> None:
        self._table.delete_acl(_subject(subject, ResponseCode.NO_PERMISSION), policy_type, resource)

    def acl(self, subject: str) -> AclInfo | None:
        subject = _subject(subject, ResponseCode.NO_PERMISSION)
        acl = self._table.acl(subject)
        return None if acl is None else acl.body(subject)

    def acls(self, subject_filter: str | None, resource_filter: str | None) -> list[AclInfo]:
        wanted = _filter(resource_filter)
        infos = []
        for subject, acl in self._table.acls(_filter(subject_filter)):
            # As in Apache's broker, a filter that is part of the subject does not filter resources.
            info = acl.body(subject, "" if wanted in subject else wanted)
            if info.policies:
                infos.append(info)
        return infos


def _filter(text: str | None) -> str:
    return text if text and text.strip() else ""


def _subject(text: str, code: ResponseCode) -> str:
    subject = parse_subject(text)
    if subject is None:
        raise Refused(code, "The subject is null.")
    return subject
