"""Admin calls about permissions: the users and the ACL that a broker keeps (ACL 2.0, Apache 5.3.0 and later)."""

from __future__ import annotations

from typing import TypeVar

from rmqclient.admin.caller import AdminCaller
from rmqproto import bodies, headers
from rmqproto.codes import RequestCode
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command

T = TypeVar("T")


class AuthCalls(AdminCaller):
    """``broker_addr`` is ``host:port``. A broker that does not support users refuses all calls: RefusedError
    with code 3. Apache's broker answers with code 16 if its rules forbid a call, and if it does not find the user."""

    def users(self, broker_addr: str) -> list[bodies.acl.UserInfo]:
        """Every user of one broker, without passwords (3005)."""
        return _of(self.call(broker_addr, RequestCode.AUTH_LIST_USER), list[bodies.acl.UserInfo]) or []

    def accounts(self, broker_addr: str, name_filter: str | None = None) -> list[bodies.acl.UserAccount]:
        """Users of one broker with their passwords; with ``name_filter`` only those with it in their names (3005)."""
        header = headers.tables.ListUsersHeader(filter=name_filter)
        return _of(self.call(broker_addr, RequestCode.AUTH_LIST_USER, header), list[bodies.acl.UserAccount]) or []

    def account(self, broker_addr: str, username: str) -> bodies.acl.UserAccount | None:
        """One user with the password; None if there is no such user (3004)."""
        header = headers.tables.UserHeader(username=username)
        return _of(self.call(broker_addr, RequestCode.AUTH_GET_USER, header), bodies.acl.UserAccount)

    def create_user(self, broker_addr: str, account: bodies.acl.UserAccount) -> None:
        """3001. RefusedError with code 16 if the name is taken."""
        self._change_user(broker_addr, RequestCode.AUTH_CREATE_USER, account)

    def update_user(self, broker_addr: str, account: bodies.acl.UserAccount) -> None:
        """Changes the fields that are not None (3002). RefusedError with code 16 if there is no such user."""
        self._change_user(broker_addr, RequestCode.AUTH_UPDATE_USER, account)

    def delete_user(self, broker_addr: str, username: str) -> None:
        """Deletes a user (3003). An unknown user is no error."""
        self.call(broker_addr, RequestCode.AUTH_DELETE_USER, headers.tables.UserHeader(username=username))

    def acls(
        self, broker_addr: str, subject_filter: str | None = None, resource_filter: str | None = None
    ) -> list[bodies.acl.AclInfo]:
        """The policies of all subjects that have any, or of those that match the filters (3010)."""
        header = headers.tables.ListAclsHeader(subject_filter=subject_filter, resource_filter=resource_filter)
        return _of(self.call(broker_addr, RequestCode.AUTH_LIST_ACL, header), list[bodies.acl.AclInfo]) or []

    def acl(self, broker_addr: str, subject: str) -> bodies.acl.AclInfo | None:
        """The policies of one subject; None if it has none (3009). RefusedError with code 16 for an unknown user."""
        header = headers.tables.SubjectHeader(subject=subject)
        return _of(self.call(broker_addr, RequestCode.AUTH_GET_ACL, header), bodies.acl.AclInfo)

    def create_acl(self, broker_addr: str, acl: bodies.acl.AclInfo) -> None:
        """Adds entries to a subject's policies; an entry of the same resource is replaced (3006). RefusedError with
        code 16 for an unknown user."""
        self._change_acl(broker_addr, RequestCode.AUTH_CREATE_ACL, acl)

    def update_acl(self, broker_addr: str, acl: bodies.acl.AclInfo) -> None:
        """As ``create_acl`` (3007)."""
        self._change_acl(broker_addr, RequestCode.AUTH_UPDATE_ACL, acl)

    def delete_acl(self, broker_addr: str, subject: str, resource: str | None = None) -> None:
        """Deletes the entry of one resource, or all of a subject (3008). RefusedError with code 16 for an unknown
        user."""
        header = headers.tables.DeleteAclHeader(subject=subject, resource=resource)
        self.call(broker_addr, RequestCode.AUTH_DELETE_ACL, header)

    def _change_user(self, broker_addr: str, code: RequestCode, account: bodies.acl.UserAccount) -> None:
        self.call(broker_addr, code, headers.tables.UserHeader(username=account.username), fastjson.dumps(account))

    def _change_acl(self, broker_addr: str, code: RequestCode, acl: bodies.acl.AclInfo) -> None:
        self.call(broker_addr, code, headers.tables.SubjectHeader(subject=acl.subject), fastjson.dumps(acl))


def _of(answer: Command, type: type[T]) -> T | None:
    """The body; None if the answer has none: brokers answer so if they find nothing."""
    return fastjson.loads_untrusted(answer.body, type) if answer.body else None
