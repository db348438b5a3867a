"""Users and policies: 3001 AUTH_CREATE_USER to 3010 AUTH_LIST_ACL (``AdminBrokerProcessor``, 5.5.0). Without
authentication anybody may change them, as with Apache's broker."""

from __future__ import annotations

from typing import Any

from rmqproto.access.resources import by_name
from rmqproto.access.users import User, UserType, parse_subject
from rmqproto.bodies.acl import AclInfo, UserAccount
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.auth import DeleteAclHeader, ListAclsHeader, ListUsersHeader, SubjectHeader, UserHeader
from rmqproto.wire import fastjson
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler

_ONLY_BY_SUPER = "The super user can only be {} by super user"


class AuthAdmin:
    def __init__(self, table: AuthTable, settings: AuthSettings):
        self._table = table
        self._unproven_codes = settings.authentication_whitelist if settings.is_authenticating else frozenset()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.get_user,
            RequestCode.AUTH_LIST_USER: self.list_users,
            RequestCode.AUTH_CREATE_ACL: self.put_acl,
            RequestCode.AUTH_UPDATE_ACL: self.put_acl,
            RequestCode.AUTH_DELETE_ACL: self.delete_acl,
            RequestCode.AUTH_GET_ACL: self.get_acl,
            RequestCode.AUTH_LIST_ACL: self.list_acls,
        }

    # --- users -------------------------------------------------------------------------------------------------------

    def create_user(self, request: Request[UserHeader], connection: Connection) -> bytes:
        account = self._account(request)
        if by_name(UserType, account.user_type) is UserType.SUPER and not self._may_change_super(request):
            raise Refused(ResponseCode.SYSTEM_ERROR, _ONLY_BY_SUPER.format("create"))
        self._table.create_user(account)
        return _done(request)

    def update_user(self, request: Request[UserHeader], connection: Connection) -> bytes:
        account = self._account(request)
        if by_name(UserType, account.user_type) is UserType.SUPER and not self._may_change_super(request):
            raise Refused(ResponseCode.SYSTEM_ERROR, _ONLY_BY_SUPER.format("update"))
        self._check_may_change(request, self._table.user(account.username))
        self._table.update_user(account)
        return _done(request)

    def delete_user(self, request: Request[UserHeader], connection: Connection) -> bytes:
        self._check_may_change(request, self._table.user(request.header.username))
        self._table.delete_user(request.header.username)
        return _done(request)

    def get_user(self, request: Request[UserHeader], connection: Connection) -> bytes:
        if not request.header.username.strip():
            raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")
        user = self._table.user(request.header.username)
        return _done(request, fastjson.dumps(user.body()) if user is not None else b"")

    def list_users(self, request: Request[ListUsersHeader], connection: Connection) -> bytes:
        users = self._table.users(_filter(request.header.filter))
        return _done(request, fastjson.dumps([user.body() for user in users]) if users else b"")

    def _account(self, request: Request[UserHeader]) -> UserAccount:
        if not request.header.username:
            raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")
        account = fastjson.loads_untrusted(request.body, UserAccount)
        account.username = request.header.username
        return account

    def _may_change_super(self, request: Request[UserHeader]) -> bool:
        """Whether the request may change super users. One without an access key may: authentication is off then."""
        if request.code in self._unproven_codes:
            return False
        name = request.header.access_key
        if not name:
            return True
        asker = self._table.user(name)
        if asker is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"User:{name} is not found")
        return asker.is_super

    def _check_may_change(self, request: Request[UserHeader], user: User | None) -> None:
        if user is not None and user.is_super and not self._may_change_super(request):
            raise Refused(ResponseCode.NO_PERMISSION, _ONLY_BY_SUPER.format("update"))

    # --- policies ----------------------------------------------------------------------------------------------------

    def put_acl(self, request: Request[SubjectHeader], connection: Connection) -> bytes:
        """The body's subject takes precedence over the header's, as in Apache's broker."""
        info = fastjson.loads_untrusted(request.body, AclInfo) if request.body else None
        if info is None or not info.policies:
            raise Refused(ResponseCode.SYSTEM_ERROR, "The body of acl is null")
        subject = parse_subject(info.subject) or _subject(request.header.subject, ResponseCode.SYSTEM_ERROR)
        self._table.put_acl(subject, info)
        return _done(request)

    def delete_acl(self, request: Request[DeleteAclHeader], connection: Connection) -> bytes:
        header = request.header
        subject = _subject(header.subject, ResponseCode.NO_PERMISSION)
        self._table.delete_acl(subject, header.policy_type, header.resource)
        return _done(request)

    def get_acl(self, request: Request[SubjectHeader], connection: Connection) -> bytes:
        subject = _subject(request.header.subject, ResponseCode.NO_PERMISSION)
        acl = self._table.acl(subject)
        return _done(request, fastjson.dumps(acl.body(subject)) if acl is not None else b"")

    def list_acls(self, request: Request[ListAclsHeader], connection: Connection) -> bytes:
        wanted = _filter(request.header.resource_filter)
        infos = []
        for subject, acl in self._table.acls(_filter(request.header.subject_filter)):
            # As in Apache's broker, a filter that is part of the subject does not filter resources.
            info = acl.body(subject, "" if wanted in subject else wanted)
            if info.policies:
                infos.append(info)
        return _done(request, fastjson.dumps(infos) if infos else b"")


def _done(request: Request[Any], body: bytes = b"") -> bytes:
    return success(request, body=body, remark=UNSET_REMARK)


def _filter(text: str | None) -> str:
    return text if text and text.strip() else ""


def _subject(text: str, code: ResponseCode) -> str:
    subject = parse_subject(text)
    if subject is None:
        raise Refused(code, "The subject is null.")
    return subject
