"""The dialogs of `updateBrokerConfig`, of `wipeWritePerm` and `addWritePerm`, and of `createUser`, `updateUser`,
`deleteUser`, `updateAcl` and `deleteAcl`. Each broker has its own users and ACL; ``broker_addr`` is the default of
where. Passwords are never shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial

from rmqadmin.core import targets
from rmqadmin.core.access.acls import delete_acl_in_broker, plan_acl, wished_acl
from rmqadmin.core.access.users import delete_user_in_broker, plan_new_user, plan_user
from rmqadmin.core.changes import Step, all_keep, plan_each
from rmqadmin.core.servers.namesrv_tables import WritePerms, change_write_perm, require_broker
from rmqadmin.core.servers.server_configs import MEANINGS, plan_broker_property
from rmqadmin.tui.dialogs.change import Ask, ChangeDialog, in_steps
from rmqadmin.tui.dialogs.fields import FormField, place_field
from rmqproto.access.resources import PolicyDecision
from rmqproto.access.users import UserStatus, UserType
from rmqproto.bodies.acl import AclEntry, UserAccount, UserInfo
from rmqproto.errors import NotFoundError


def broker_property(key: str, value: str, broker_addr: str) -> ChangeDialog:
    """Reads the value back, because brokers report success even for values that they do not understand."""

    def plan(ask: Ask) -> list[Step]:
        addrs = targets.masters(ask.admin, *ask.said["on"])
        return plan_each(addrs, lambda addr: plan_broker_property(ask.admin, addr, key, ask.said["value"] or ""))

    fields = [
        FormField(name="value", label="value", value=value),
        place_field(broker_addr, "this broker, or a cluster's masters"),
    ]
    meaning = MEANINGS.get(key, "Apache's manual of the broker says what it means")
    return ChangeDialog(
        f"Property {key}", in_steps("updateBrokerConfig", plan), name=key, fields=fields, about=f"{meaning}."
    )


def write_perm(broker_name: str) -> ChangeDialog:
    """On all name servers."""

    def change(ask: Ask, may_write: bool, only: Sequence[str] | None = None) -> WritePerms:
        require_broker(ask.admin, broker_name)
        found = change_write_perm(ask.admin, broker_name, may_write=may_write, dry_run=ask.dry_run, only=only)
        if (back := found.way_back()) is not None:
            ask.notice(f"to undo this: {back}")
            ask.undo_by(lambda again: change(again, not may_write, found.may_be_done))
        return found

    options = {"removed: producers use other brokers, consumers stay": False, "restored": True}
    field = FormField(name="may_write", label="it is", value=False, options=options, is_list=True)
    return ChangeDialog(
        f"Write permission of the broker {broker_name}", lambda ask: change(ask, ask.said["may_write"]),
        name=broker_name, fields=[field],
    )  # fmt: skip


def _on(broker_addr: str) -> FormField:
    return place_field(broker_addr, "this broker, or all of a cluster")


def _plan_on(ask: Ask, plan: Callable[[str], Step]) -> list[Step]:
    return plan_each(targets.replicas(ask.admin, *ask.said["on"]), plan)


def _one_of(name: str, words: type[StrEnum], value: str | None, hint: str) -> FormField:
    """A choice; a word that a newer broker gave is one of it."""
    options = {str(word): word.value for word in words}
    if value is not None and value not in options:
        options[value] = value
    return FormField(name=name, label=name, value=value, hint=hint, options=options)


def _type(value: str | None) -> FormField:
    return _one_of("type", UserType, value, "Super: may do everything")


def _password(label: str, *, is_required: bool = False) -> FormField:
    return FormField(name="password", label=label, is_secret=True, is_required=is_required)


def new_user(broker_addr: str) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        account = UserAccount(username=ask.said["user"], password=ask.said["password"], user_type=ask.said["type"])
        return _plan_on(ask, lambda addr: plan_new_user(ask.admin, addr, account))

    user = FormField(name="user", label="user", is_required=True)
    fields = [user, _password("password", is_required=True), _type(UserType.NORMAL.value), _on(broker_addr)]
    return ChangeDialog("New user", in_steps("createUser", plan), name=None, fields=fields)


def edit_user(user: UserInfo, broker_addr: str) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        """One step for each entry, so that each can be undone."""
        name, said = user.username, ask.said
        wanted = [
            UserAccount(username=name, user_status=said["status"]),
            UserAccount(username=name, user_type=said["type"]),
            UserAccount(username=name, password=said["password"]),
        ]
        found: list[Step] = []
        for account in wanted:
            if account.user_status or account.user_type or account.password:
                found += _plan_on(ask, partial(plan_user, ask.admin, account=account))
        return [step for step in found if step.action != "keep"] or found[:1]

    fields = [
        _one_of("status", UserStatus, user.user_status, "disable: no access"),
        _type(user.user_type),
        _password("new password"),
        _on(broker_addr),
    ]
    return ChangeDialog(
        f"Change the user {user.username}", in_steps("updateUser", plan), name=user.username, fields=fields,
        about="An empty field stays as it is.",
    )  # fmt: skip


def delete_user(username: str, broker_addr: str) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        found = _plan_on(ask, lambda addr: delete_user_in_broker(ask.admin, addr, username))
        if all_keep(found):
            raise NotFoundError(f"no broker has a user {username}")
        return found

    return ChangeDialog(
        f"Delete the user {username}", in_steps("deleteUser", plan), name=username, fields=[_on(broker_addr)],
        about="Its ACL is deleted too, and nothing brings its password back.", lost="the password is gone",
    )  # fmt: skip


def grant(subject: str, entry: AclEntry | None, broker_addr: str) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        said = ask.said
        decision = PolicyDecision(said["decision"] or PolicyDecision.ALLOW)
        wished = wished_acl(subject, said["resources"], said["actions"], decision, said["source"])
        return _plan_on(ask, lambda addr: plan_acl(ask.admin, addr, wished, ask.admin.update_acl))

    now = entry or AclEntry()
    actions, source = ",".join(now.actions), ",".join(now.source_ips or ())
    fields = [
        FormField(name="resources", label="resources", value=now.resource, hint="Topic:N,Group:N* …", is_required=True),
        FormField(name="actions", label="actions", value=actions, hint="Pub, Sub, All, Get …", is_required=True),
        _one_of("decision", PolicyDecision, now.decision or PolicyDecision.ALLOW.value, "Deny goes before Allow"),
        FormField(name="source", label="from", value=source, hint="addresses; empty: any"),
        _on(broker_addr),
    ]  # fmt: skip
    return ChangeDialog(
        f"What {subject} may do", in_steps("updateAcl", plan), name=subject, fields=fields,
        about="An entry of the same resource is replaced, others stay.",
    )  # fmt: skip


def revoke(subject: str, resource: str | None, broker_addr: str) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        return _plan_on(ask, lambda addr: delete_acl_in_broker(ask.admin, addr, subject, resource))

    return ChangeDialog(
        f"Revoke {resource or 'everything'} of {subject}", in_steps("deleteAcl", plan), name=subject,
        fields=[_on(broker_addr)], about="The user stays.",
    )  # fmt: skip
