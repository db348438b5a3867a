"""The dialogs of `createUser`, `updateUser`, `deleteUser`, `updateAcl` and `deleteAcl`. Each broker has its own users
and ACL. Passwords are never shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.access.acls import delete_acl_in_broker, plan_acl, wished_acl
from rmqadmin.core.access.user_changes import delete_user_in_broker, plan_new_user, plan_user
from rmqadmin.core.changes import Step, all_keep, plan_each
from rmqadmin.tui.dialogs.change import Occasion
from rmqadmin.tui.dialogs.form import FormField, StepsScreen, place
from rmqproto.access.resources import PolicyDecision
from rmqproto.access.users import UserStatus, UserType
from rmqproto.bodies.acl import AclEntry, UserAccount, UserInfo
from rmqproto.errors import NotFoundError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class AccessFormScreen(StepsScreen):
    """The base of these dialogs. ``broker_addr`` is the default of the field ``on``."""

    def __init__(self, title: str, name_to_type: str | None, broker_addr: str):
        super().__init__(title, name_to_type)
        self._broker_addr = broker_addr

    def on_field(self) -> FormField:
        return FormField(name="on", label="on", value=self._broker_addr, hint="this broker, or all of a cluster")

    def plan_on(self, admin: AdminClient, plan: Callable[[str], Step]) -> list[Step]:
        return plan_each(targets.replicas(admin, *place(self.required("on"))), plan)


class NewUserScreen(AccessFormScreen):
    command = "createUser"

    def __init__(self, broker_addr: str):
        super().__init__("New user", None, broker_addr)

    def fields(self) -> Sequence[FormField]:
        return [
            FormField(name="user", label="user"),
            FormField(name="password", label="password", is_secret=True),
            FormField(name="type", label="type", value=UserType.NORMAL, hint="Normal, or Super: may do everything"),
            self.on_field(),
        ]

    def words(self) -> str:
        return "Enter shows on which brokers it is made."

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        account = UserAccount(
            username=self.required("user"),
            password=self.required("password"),
            user_type=self.said_word("type", UserType),
        )
        return self.plan_on(admin, lambda addr: plan_new_user(admin, addr, account))


class EditUserScreen(AccessFormScreen):
    command = "updateUser"
    empty = "stays as it is"

    def __init__(self, user: UserInfo, broker_addr: str):
        super().__init__(f"Change the user {user.username}", user.username, broker_addr)
        self._user = user

    def fields(self) -> Sequence[FormField]:
        user = self._user
        return [
            FormField(
                name="status", label="status", value=user.user_status or "", hint="enable, or disable: no access"
            ),
            FormField(
                name="type", label="type", value=user.user_type or "", hint="Normal, or Super: may do everything"
            ),
            FormField(name="password", label="new password", is_secret=True),
            self.on_field(),
        ]

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        """One step for each entry, so that each can be undone."""
        name = self._user.username
        wanted = [
            UserAccount(username=name, user_status=self.said_word("status", UserStatus)),
            UserAccount(username=name, user_type=self.said_word("type", UserType)),
            UserAccount(username=name, password=self.said("password")),
        ]
        found: list[Step] = []
        for account in wanted:
            if account.user_status or account.user_type or account.password:
                found += self.plan_on(admin, partial(plan_user, admin, account=account))
        return [step for step in found if step.action != "keep"] or found[:1]


class DeleteUserScreen(AccessFormScreen):
    command = "deleteUser"

    def __init__(self, username: str, broker_addr: str):
        super().__init__(f"Delete the user {username}", username, broker_addr)
        self._username = username

    def fields(self) -> Sequence[FormField]:
        return [self.on_field()]

    def words(self) -> str:
        return "Its ACL is deleted too, and nothing brings its password back. Enter shows on which brokers."

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        name = self._username
        steps = self.plan_on(admin, lambda addr: delete_user_in_broker(admin, addr, name))
        if all_keep(steps):
            raise NotFoundError(f"no broker has a user {name}")
        return steps


class GrantScreen(AccessFormScreen):
    command = "updateAcl"

    def __init__(self, subject: str, entry: AclEntry | None, broker_addr: str):
        super().__init__(f"What {subject} may do", subject, broker_addr)
        self._subject, self._entry = subject, entry

    def fields(self) -> Sequence[FormField]:
        entry = self._entry or AclEntry()
        return [
            FormField(name="resources", label="resources", value=entry.resource or "", hint="Topic:NAME,Group:NAME* …"),
            FormField(
                name="actions", label="actions", value=",".join(entry.actions), hint="Pub, Sub, All, Get, Update …"
            ),
            FormField(
                name="decision", label="decision", value=entry.decision or PolicyDecision.ALLOW, hint="Allow or Deny"
            ),
            FormField(
                name="source", label="from", value=",".join(entry.source_ips or ()), hint="addresses; empty: any"
            ),
            self.on_field(),
        ]

    def words(self) -> str:
        return "An entry of the same resource is replaced, others stay. Enter shows what would change."

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        decision = self.said_word("decision", PolicyDecision) or PolicyDecision.ALLOW
        wished = wished_acl(
            self._subject, self.said("resources") or "", self.said("actions") or "", decision, self.said("source")
        )
        return self.plan_on(admin, lambda addr: plan_acl(admin, addr, wished, admin.update_acl))


class RevokeScreen(AccessFormScreen):
    command = "deleteAcl"

    def __init__(self, subject: str, resource: str | None, broker_addr: str):
        super().__init__(f"Revoke {resource or 'everything'} of {subject}", subject, broker_addr)
        self._subject, self._resource = subject, resource

    def fields(self) -> Sequence[FormField]:
        return [self.on_field()]

    def words(self) -> str:
        return "The user stays. Enter shows on which brokers."

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        return self.plan_on(admin, lambda addr: delete_acl_in_broker(admin, addr, self._subject, self._resource))
