"""The kinds of objects in a manifest: how each is checked, read from a broker, created, changed and deleted."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from rmqadmin.core.access.acls import acl_step, removed_entries
from rmqadmin.core.access.users import account_changes
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import FieldChange, Step, action
from rmqadmin.core.names import check_nested
from rmqadmin.core.servers.exports import user_groups, user_topics
from rmqadmin.core.topic_and_group_configs import (
    GROUPS,
    TOPICS,
    ListKind,
    checked_entry,
    entry_of,
    plan_config,
    plan_deletion,
    wanted,
    without_none,
)
from rmqadmin.core.topics.topic_changes import shrink_warnings
from rmqadmin.core.units import perm_letters
from rmqproto.access.users import UserStatus, UserType
from rmqproto.bodies.acl import AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import UsageError

T = TypeVar("T")
C = TypeVar("C", TopicConfig, SubscriptionGroupConfig)


class ObjectKind(Generic[T]):
    """One kind. ``T`` is what a broker has of an object. ``fields`` are those allowed in a file. ``on_slaves``: slaves
    keep their own objects."""

    section: str
    noun: str
    fields: tuple[str, ...]
    on_slaves = True

    def checked(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields, with words turned into the brokers' values. UsageError, which begins with the name."""
        raise NotImplementedError

    def read(self, admin: AdminClient, addr: str) -> dict[str, T]:
        """All objects on a broker, by name."""
        raise NotImplementedError

    def own(self, admin: AdminClient, addr: str) -> dict[str, T]:
        """The objects to export: those that are not the system's."""
        return self.read(admin, addr)

    def prunable(self, admin: AdminClient, addr: str) -> Iterable[str]:
        """The names of objects that may be deleted when a file does not name them."""
        return self.own(admin, addr)

    def exported(self, found: T) -> dict[str, Any]:
        """The object as a file has it."""
        raise NotImplementedError

    def plan(self, admin: AdminClient, addr: str, name: str, values: Mapping[str, Any], before: T | None) -> Step:
        """The step that gives a broker's object these fields. UsageError if more fields are needed."""
        raise NotImplementedError

    def plan_deletion(self, admin: AdminClient, addr: str, name: str, before: T) -> Step:
        raise NotImplementedError


class ConfigKind(ObjectKind[C]):
    """Topics or groups."""

    on_slaves = False

    def __init__(
        self,
        noun: str,
        kind: ListKind[C],
        own: Callable[[AdminClient, str], dict[str, C]],
        read: Callable[[AdminClient, str], dict[str, C]],
        create: Callable[[AdminClient, str, C], None],
        delete: Callable[[AdminClient, str, str], None],
        warn: Callable[[AdminClient, str, C | None, C], list[str]] = lambda *_: [],
    ):
        self.section, self.noun = kind.section, noun
        names: tuple[str, ...] = kind.config_type.__struct_encode_fields__
        self.fields = tuple(name for name in names if name != kind.name_field)
        self._kind: ListKind[C] = kind
        self._own: Callable[[AdminClient, str], dict[str, C]] = own
        self._read: Callable[[AdminClient, str], dict[str, C]] = read
        self._create: Callable[[AdminClient, str, C], None] = create
        self._delete = delete
        self._warn: Callable[[AdminClient, str, C | None, C], list[str]] = warn

    def checked(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        found = checked_entry(self._kind, {self._kind.name_field: name, **values})
        del found[self._kind.name_field]
        return found

    def read(self, admin: AdminClient, addr: str) -> dict[str, C]:
        return self._read(admin, addr)

    def own(self, admin: AdminClient, addr: str) -> dict[str, C]:
        return self._own(admin, addr)

    def exported(self, found: C) -> dict[str, Any]:
        values = entry_of(self._kind, found)
        if "perm" in values:
            values["perm"] = perm_letters(values["perm"]) or values["perm"]
        return values

    def plan(self, admin: AdminClient, addr: str, name: str, values: Mapping[str, Any], before: C | None) -> Step:
        if before is None and (problem := self._kind.name_problem(name)):
            raise UsageError(problem)  # before anything is changed, because every broker would refuse it
        request = wanted(self._kind, {self._kind.name_field: name, **values}, before, replace=False)
        create, warn = partial(self._create, admin), partial(self._warn, admin, addr)
        return plan_config(self._kind, addr, name, before, request, create, warn)

    def plan_deletion(self, admin: AdminClient, addr: str, name: str, before: C) -> Step:
        return plan_deletion(self._kind, addr, name, before, partial(self._delete, admin, addr, name))


class UserKind(ObjectKind[UserAccount]):
    """Users. Passwords are exported only on request, and an entry without one leaves the password as it is."""

    section, noun = "users", "user"
    fields = ("userType", "userStatus", "password")

    def __init__(self, *, with_passwords: bool = False):
        self._with_passwords = with_passwords

    def checked(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        _account(name, values)
        return dict(values)

    def read(self, admin: AdminClient, addr: str) -> dict[str, UserAccount]:
        return {account.username: account for account in admin.accounts(addr)}

    def prunable(self, admin: AdminClient, addr: str) -> Iterable[str]:
        """All except super users: without one, nobody could log in to restore them."""
        return [name for name, user in self.read(admin, addr).items() if user.user_type != UserType.SUPER]

    def exported(self, found: UserAccount) -> dict[str, Any]:
        values: dict[str, Any] = {"userType": found.user_type, "userStatus": found.user_status}
        if self._with_passwords:
            values["password"] = found.password
        return {field: value for field, value in values.items() if value is not None}

    def plan(
        self, admin: AdminClient, addr: str, name: str, values: Mapping[str, Any], before: UserAccount | None
    ) -> Step:
        account = _account(name, values)
        if before is None and account.password is None:
            raise UsageError(f"the user {name} is new at {addr} and has no password", hint="Write one: password: TEXT.")
        changes = account_changes(before, account)
        act = partial(admin.create_user if before is None else admin.update_user, addr, account)
        return Step(addr, action(before, changes), changes, act)

    def plan_deletion(self, admin: AdminClient, addr: str, name: str, before: UserAccount) -> Step:
        changes = [FieldChange("user_type", before.user_type, None)]
        return Step(addr, "delete", changes, partial(admin.delete_user, addr, name))


def _account(name: str, values: Mapping[str, Any]) -> UserAccount:
    for field, choices in (("userType", UserType), ("userStatus", UserStatus)):
        if field in values and values[field] not in [*choices]:
            raise UsageError(f"{name}: {field} must be {' or '.join(choices)}")
    try:
        return msgspec.convert({"username": name, **values}, UserAccount)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {error}") from None


class AclKind(ObjectKind[AclInfo]):
    """ACLs, by subject. An entry gives the decisions for some resources; those for others stay."""

    section, noun = "acls", "acl"
    fields = ("policies",)

    def checked(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        check_nested(name, values, AclInfo)
        _acl(name, values)
        return dict(values)

    def read(self, admin: AdminClient, addr: str) -> dict[str, AclInfo]:
        return {acl.subject: acl for acl in admin.acls(addr)}

    def exported(self, found: AclInfo) -> dict[str, Any]:
        return {"policies": [without_none(msgspec.to_builtins(policy)) for policy in found.policies]}

    def plan(self, admin: AdminClient, addr: str, name: str, values: Mapping[str, Any], before: AclInfo | None) -> Step:
        act = admin.create_acl if before is None else admin.update_acl
        return acl_step(addr, before, _acl(name, values), act)

    def plan_deletion(self, admin: AdminClient, addr: str, name: str, before: AclInfo) -> Step:
        return Step(addr, "delete", removed_entries(before, None), partial(admin.delete_acl, addr, name))


def _acl(name: str, values: Mapping[str, Any]) -> AclInfo:
    try:
        return AclInfo(subject=name, policies=msgspec.convert(values.get("policies", []), list[AclPolicy]))
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {error}") from None


TOPIC_KIND = ConfigKind(
    "topic",
    TOPICS,
    lambda admin, addr: user_topics(admin, addr).topic_config_table,
    lambda admin, addr: admin.all_topics(addr).topic_config_table,
    lambda admin, addr, config: admin.create_topic(addr, config),
    lambda admin, addr, name: admin.delete_topic_in_broker(addr, name),
    shrink_warnings,
)
GROUP_KIND = ConfigKind(
    "group",
    GROUPS,
    lambda admin, addr: user_groups(admin, addr).subscription_group_table,
    lambda admin, addr: admin.all_groups(addr).subscription_group_table,
    lambda admin, addr, config: admin.create_group(addr, config),
    # without clean_offset Apache's broker creates it again at once
    lambda admin, addr, name: admin.delete_group(addr, name, clean_offset=True),
)
USER_KIND, ACL_KIND = UserKind(), AclKind()

KINDS: tuple[ObjectKind[Any], ...] = (TOPIC_KIND, GROUP_KIND, USER_KIND, ACL_KIND)
"""In order of creation: a user before its permissions. Deletion goes the other way."""
