"""Users and their policies, and the file that holds them (``AuthenticationMetadataManagerImpl`` and
``AuthorizationMetadataManagerImpl``, 5.5.0). Apache keeps them in RocksDB (``config/users``, ``config/acls``), which
cannot be shared; here they are one JSON table like the others, ``config/auth.json``:

    {"acls": {"User:alice": {"policies": […], "subject": "User:alice"}},
     "users": {"alice": {"password": "…", "userStatus": "enable", "userType": "Normal", "username": "alice"}}}

Passwords are in clear text, since a signature is checked with the password itself. So only the owner may read the file
(0600). When a change returns, the kernel has it: a killed process loses none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from rmqproto.access.policies import Acl, BadPolicy
from rmqproto.access.resources import PolicyType, ResourcePattern, by_name
from rmqproto.access.users import SUBJECT_PREFIX, User, UserStatus, UserType, acls_untrusted, users_untrusted
from rmqproto.bodies.acl import AclInfo, UserAccount
from rmqproto.errors import ProtocolError, RocketMQError, StorageError
from rmqproto.wire.credentials import Credentials
from rmqserver.store.disk.config_files import ConfigFiles

FILE_NAME = "auth.json"

USERS_MAX = 10_000
NAME_MAX_CHARS = 255
"""Limit for a name or a password. Apache has neither this limit nor that of users."""


class AuthRefused(RocketMQError):
    """A change that the rules for users and policies do not allow, in Apache's words. The answer has code 16."""


class AuthTable:
    """The functions in ``on_change`` are called after every change. As in Apache, a user's name is any text that is not
    blank."""

    def __init__(self, files: ConfigFiles | None):
        """Without ``files`` the table is only in memory."""
        self.on_change: list[Callable[[], None]] = []
        self._files = files
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        """By subject."""

    def load(self) -> None:
        """Loads the file. Raises StorageError, which shows no secret, for one that is not a valid table."""
        if self._files is None:
            return
        document = self._files.load(FILE_NAME)
        try:
            self._users, self._acls = users_untrusted(document), acls_untrusted(document)
        except ProtocolError as error:
            raise StorageError(
                f"{self._files.directory}/{FILE_NAME}: {error}",
                hint="repair the file by hand, or move it and its .bak away to start without users",
            ) from None

    def init_super_user(self, credentials: Credentials | None) -> None:
        """Creates the super user, unless there is a user of that name."""
        if credentials is not None and credentials.access_key not in self._users:
            self._put_user(User(credentials.access_key, credentials.secret_key, UserType.SUPER))

    # -- users

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    def users(self, name_filter: str) -> list[User]:
        """Users whose names contain the filter, sorted."""
        return [self._users[name] for name in _sorted(self._users) if name_filter in name]

    def create_user(self, account: UserAccount) -> None:
        """Creates a user; an unknown type counts as Normal. Raises AuthRefused if the user exists, the name or password
        is blank, or a limit is reached."""
        _check_name(account.username)
        if not account.password or not account.password.strip():
            raise AuthRefused("password can not be blank")
        if account.username in self._users:
            raise AuthRefused("The user is existed")
        if len(self._users) >= USERS_MAX:
            raise AuthRefused(f"there are {USERS_MAX} users, and no more are taken: delete some")
        self._put_user(
            User(
                account.username,
                _checked_password(account.password),
                by_name(UserType, account.user_type) or UserType.NORMAL,
                by_name(UserStatus, account.user_status) or UserStatus.ENABLE,
            )
        )

    def update_user(self, account: UserAccount) -> None:
        """Changes the given fields. Raises AuthRefused if there is no such user."""
        _check_name(account.username)
        old = self._users.get(account.username)
        if old is None:
            raise AuthRefused("The user is not exist")
        given = account.password is not None and account.password.strip()
        self._put_user(
            User(
                old.name,
                _checked_password(account.password or "") if given else old.password,
                by_name(UserType, account.user_type) or old.type,
                by_name(UserStatus, account.user_status) or old.status,
            )
        )

    def delete_user(self, name: str) -> None:
        """Deletes a user and its policies. An unknown user is no error."""
        _check_name(name)
        if self._users.pop(name, None) is not None:
            self._acls.pop(SUBJECT_PREFIX + name, None)
            self._changed()

    # -- policies

    def acl(self, subject: str) -> Acl | None:
        """Raises AuthRefused for a subject that is not a user."""
        self._check_subject(subject, "The subject is not exist.")
        return self._acls.get(subject)

    def acl_of(self, user: str) -> Acl | None:
        return self._acls.get(SUBJECT_PREFIX + user)

    def acls(self, subject_filter: str) -> list[tuple[str, Acl]]:
        """Subjects that contain the filter, with their policies, sorted."""
        return [(subject, self._acls[subject]) for subject in _sorted(self._acls) if subject_filter in subject]

    def put_acl(self, subject: str, info: AclInfo) -> None:
        """Adds entries to the subject's policies, and replaces those of the same resource. Raises AuthRefused for an
        invalid policy, and for a subject that is not a user."""
        try:
            changes = Acl(info.policies)
            self._check_subject(subject, f"The subject of {subject} is not exist.")
            old = self._acls.get(subject)
            self._acls[subject] = changes if old is None else old.updated(changes)
        except BadPolicy as error:
            raise AuthRefused(str(error)) from None
        self._changed()

    def delete_acl(self, subject: str, policy_type: str | None, resource: str | None) -> None:
        """Deletes the entry of one resource, or without one, all policies of the subject. Raises AuthRefused if the
        subject has none."""
        self._check_subject(subject, "The subject is not exist.")
        old = self._acls.get(subject)
        if old is None:
            raise AuthRefused("The acl is not exist.")
        pattern = ResourcePattern.parse(resource)
        after = None
        if pattern is not None:
            after = old.without(by_name(PolicyType, policy_type) or PolicyType.CUSTOM, pattern)
        if after is None or after.is_empty:
            del self._acls[subject]
        else:
            self._acls[subject] = after
        self._changed()

    # -- inside

    def _check_subject(self, subject: str, refusal: str) -> None:
        if subject.removeprefix(SUBJECT_PREFIX) not in self._users:
            raise AuthRefused(refusal)

    def _put_user(self, user: User) -> None:
        self._users[user.name] = user
        self._changed()

    def _changed(self) -> None:
        if self._files is not None:
            acls = {subject: msgspec.to_builtins(acl.body(subject)) for subject, acl in self._acls.items()}
            users = {name: msgspec.to_builtins(user.body()) for name, user in self._users.items()}
            self._files.save_now(FILE_NAME, {"acls": acls, "users": users})
        for callback in self.on_change:
            callback()


def _sorted(names: Iterable[str]) -> list[str]:
    """Sorts names as RocksDB orders its keys."""
    return sorted(names, key=lambda name: name.encode(errors="replace"))


def _check_name(name: str) -> None:
    if not name.strip():
        raise AuthRefused("username can not be blank")
    if len(name) > NAME_MAX_CHARS:
        raise AuthRefused(f"username is longer than {NAME_MAX_CHARS} characters")


def _checked_password(password: str) -> str:
    if len(password) > NAME_MAX_CHARS:
        raise AuthRefused(f"password is longer than {NAME_MAX_CHARS} characters")
    return password
