"""What users may do: entries, and what granting and revoking make of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import KEEP, REPLACE, FieldChange, Step, action
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import ResultOf, Row, doc
from rmqproto.access.resources import Action, PolicyDecision, PolicyType, ResourcePattern, by_name
from rmqproto.access.users import SUBJECT_PREFIX
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy
from rmqproto.errors import NotFoundError, UsageError

EACH = (Action.PUB, Action.SUB, Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET, Action.LIST)
"""What ``All`` stands for."""


class AclRow(Row, frozen=True):
    subject: Annotated[str, doc("User: and a name", key=True)]
    policy_type: Annotated[str | None, doc("Custom or Default", minor=True)]
    resource: Annotated[
        str | None, doc("Cluster:, Topic:, Group: or Namespace: and a name; none without any", key=True)
    ]
    actions: Annotated[list[str], doc("actions that the entry is about")]
    source_ips: Annotated[list[str] | None, doc("addresses for which it holds; none: all")]
    decision: Annotated[str | None, doc("Allow or Deny", vital=True)]
    broker_addr: Annotated[str, doc("address of the broker", apart=True, key=True)]


class Acls(ResultOf[AclRow], frozen=True):
    """Who may do what, one row an entry and broker."""

    found: Mapping[str, list[AclInfo]]
    """By the address of the broker."""

    def rows(self) -> Sequence[AclRow]:
        return [
            AclRow(
                subject=acl.subject,
                policy_type=policy_type,
                resource=entry.resource if entry else None,
                actions=entry.actions if entry else [],
                source_ips=entry.source_ips if entry else None,
                decision=entry.decision if entry else None,
                broker_addr=addr,
            )
            for addr, acls in self.found.items()
            for acl in acls
            for policy_type, entry in _entries(acl) or ((None, None),)
        ]

    def mqadmin_text(self) -> str:
        """Apache's text, with the heading repeated for each broker that has entries."""
        text = ""
        for acls in self.found.values():
            if acls:
                text += _line("#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
            for acl in acls:
                if not acl.policies:
                    text += _line(acl.subject, "", "", "", "", "")
                for policy_type, entry in _entries(acl):
                    cells = (acl.subject, policy_type, entry.resource, entry.actions, entry.source_ips, entry.decision)
                    text += _line(*cells)
        return text


def _line(*cells: Any) -> str:
    texts = [f"[{', '.join(cell)}]" if isinstance(cell, list) else java_text(cell) for cell in cells]
    return "{:16}  {:10}  {:22}  {:20}  {:24}  {:10}\n".format(*texts)


def _entries(acl: AclInfo) -> list[tuple[str | None, AclEntry]]:
    return [(policy.policy_type, entry) for policy in acl.policies for entry in policy.entries]


def wished_acl(subject: str, resources: str, actions: str, decision: PolicyDecision, source_ips: str | None) -> AclInfo:
    """The ACL to ask for, with one entry per resource. UsageError if there is no resource or no action, and for an
    unknown action: Apache's brokers leave it out, report success, and so permit or deny less than was asked for."""
    names, wanted = _parts(resources), _parts(actions)
    if not names or not wanted:
        raise UsageError("-r and -a need at least one name each", hint="For example -r Topic:OrderTopic -a Pub,Sub.")
    unknown = next((name for name in wanted if by_name(Action, name) is None), None)
    if unknown is not None:
        raise not_an_action(unknown)
    ips = None if source_ips is None else _parts(source_ips)
    entries = [AclEntry(actions=wanted, decision=decision, resource=name, source_ips=ips) for name in names]
    return AclInfo(policies=[AclPolicy(entries=entries)], subject=subject)


def not_an_action(name: str) -> UsageError:
    return UsageError(f"{name} is not an action", hint=f"All, {', '.join(each.value for each in EACH)}.")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def acl_changes(before: AclInfo | None, after: AclInfo) -> list[FieldChange]:
    """The resources whose entries differ. Resources that are not in ``after`` stay."""
    old = {} if before is None else {entry.resource: entry_text(entry) for _, entry in _entries(before)}
    changes = []
    for _, entry in _entries(after):
        if old.get(entry.resource) != entry_text(entry):
            changes.append(FieldChange(entry.resource or "", old.get(entry.resource), entry_text(entry)))
    return changes


def plan_acl(
    admin: AdminClient, addr: str, wished: AclInfo, act: Callable[[str, AclInfo], None], *, target: str | None = None
) -> Step:
    """Plans entries for one subject on one broker."""
    before = admin.acl(addr, wished.subject)
    step = _undoable(addr, wished.subject, before, acl_step(addr, before, wished, act))
    return msgspec.structs.replace(step, target=target or addr)


def acl_step(addr: str, before: AclInfo | None, wished: AclInfo, act: Callable[[str, AclInfo], None]) -> Step:
    """Like ``plan_acl``, for callers that know what the broker has."""
    changes = acl_changes(before, wished)
    return Step(addr, action(before, changes), changes, partial(act, addr, wished))


def _undoable(addr: str, subject: str, before: AclInfo | None, step: Step) -> Step:
    """The step with what undoes it: a command for each resource it changes, and the plan of what those do."""
    found = {} if before is None else {entry.resource or "": entry for _, entry in _entries(before)}
    old = {change.field: found.get(change.field) for change in step.changes}

    def plan_back(admin: AdminClient) -> list[Step]:
        kept = AclInfo(policies=[AclPolicy(entries=[entry for entry in old.values() if entry])], subject=subject)
        return [
            *(delete_acl_in_broker(admin, addr, subject, name) for name, entry in old.items() if entry is None),
            *([plan_acl(admin, addr, kept, admin.update_acl)] if kept.policies[0].entries else []),
        ]

    undo = [_entry_back(addr, subject, entry, name) for name, entry in old.items()]
    return msgspec.structs.replace(step, undo=undo, plan_back=plan_back)


def _entry_back(addr: str, subject: str, before: AclEntry | None, resource: str) -> list[str]:
    """The command, in words, that restores the entry of a resource; ``before`` is None if there was none."""
    who = ["-b", addr, "-s", subject, "-r", resource]
    if before is None:
        return ["deleteAcl", *who]
    ips = ["-i", ",".join(before.source_ips)] if before.source_ips else []
    return ["updateAcl", *who, "-a", ",".join(before.actions), "-d", before.decision or "", *ips]


def removed_entries(before: AclInfo | None, resource: str | None) -> list[FieldChange]:
    """The removal of one resource's entry, or of all entries."""
    found = [] if before is None else _entries(before)
    return [
        FieldChange(entry.resource or "", entry_text(entry), None)
        for _, entry in found
        if resource is None or entry.resource == resource
    ]


def delete_acl_in_broker(admin: AdminClient, addr: str, subject: str, resource: str | None) -> Step:
    """Plans the deletion of one resource's entry on one broker, or of all of a subject's entries."""
    return _deletion(admin, addr, subject, admin.acl(addr, subject), resource)


def _deletion(admin: AdminClient, addr: str, subject: str, before: AclInfo | None, resource: str | None) -> Step:
    changes = removed_entries(before, resource)
    act = partial(admin.delete_acl, addr, subject, resource)
    return _undoable(addr, subject, before, Step(addr, "delete" if changes else KEEP, changes, act))


def entry_text(entry: AclEntry) -> str:
    """An entry in one line: ``Allow Pub,Sub from 10.0.0.0/8``."""
    where = f" from {','.join(entry.source_ips)}" if entry.source_ips else ""
    return f"{entry.decision} {','.join(entry.actions)}{where}"


def parse_actions(text: str) -> list[Action]:
    """The actions in a text such as ``Pub,sub``, each once. UsageError if there is none, and for an unknown action."""
    found = []
    for name in _parts(text):
        one = by_name(Action, name)
        if one is not Action.ALL and one not in EACH:
            raise not_an_action(name)
        found.append(one)
    if not found:
        raise UsageError("no action is named", hint="For example Pub,Sub.")
    return list(dict.fromkeys(found))


def parse_resource(text: str) -> str:
    """A resource as brokers spell it. UsageError for a text that names none."""
    pattern = ResourcePattern.parse(text.strip())
    if pattern is None:
        raise UsageError(
            f"{text} is not a resource",
            hint="Topic:, Group: or Cluster: and a name or the beginning of one: Topic:order*.",
        )
    return pattern.key


def plan_grant(
    admin: AdminClient,
    addr: str,
    username: str,
    actions: Sequence[Action],
    resource: str,
    decision: PolicyDecision,
    source_ips: list[str] | None,
) -> Step:
    """Plans a grant: adds the actions to the resource's entry. An entry with another decision or for other addresses is
    replaced. NotFoundError if there is no such user."""
    acl, before = _entry(admin, addr, username, resource)
    kept: list[Action] = []
    if before is not None and before.decision == decision and (before.source_ips or None) == source_ips:
        kept = _known(before)
    wanted = list(dict.fromkeys([*kept, *actions]))
    if Action.ALL in wanted:
        wanted = [Action.ALL]
    after = AclEntry(
        actions=[each.value for each in wanted], decision=decision, resource=resource, source_ips=source_ips
    )
    step = _entry_step(addr, username, before, after, admin.create_acl if acl is None else admin.update_acl)
    is_replaced = before is not None and not kept and step.action != KEEP
    return msgspec.structs.replace(step, action=REPLACE) if is_replaced else step


def plan_revocation(admin: AdminClient, addr: str, username: str, actions: Sequence[Action], resource: str) -> Step:
    """Plans a revocation: takes the actions from the resource's entry, and deletes the entry with its last action.
    NotFoundError if there is no such user."""
    _, before = _entry(admin, addr, username, resource)
    if before is None:
        return Step(addr, KEEP, [], lambda: None)
    had = _known(before)
    if Action.ALL in actions:
        left = []
    else:
        left = [each for each in (EACH if Action.ALL in had else had) if each not in actions]
    if Action.ALL in had and left == list(EACH):
        left = [Action.ALL]
    if not left:
        return _deletion(admin, addr, SUBJECT_PREFIX + username, _info(username, before), resource)
    after = AclEntry(
        actions=[each.value for each in left],
        decision=before.decision,
        resource=before.resource,
        source_ips=before.source_ips,
    )
    return _entry_step(addr, username, before, after, admin.update_acl)


def _entry_step(
    addr: str, username: str, before: AclEntry | None, after: AclEntry, act: Callable[[str, AclInfo], None]
) -> Step:
    was, wished = None if before is None else _info(username, before), _info(username, after)
    return _undoable(addr, wished.subject, was, acl_step(addr, was, wished, act))


def _entry(admin: AdminClient, addr: str, username: str, resource: str) -> tuple[AclInfo | None, AclEntry | None]:
    """All policies of the user, and the Custom entry for exactly this resource."""
    if all(user.username != username for user in admin.users(addr)):
        raise NotFoundError(
            f"the broker {addr} has no user {username}", hint=f"`rmqadmin user ls -b {addr}` lists its users."
        )
    acl = admin.acl(addr, SUBJECT_PREFIX + username)
    for policy in [] if acl is None else acl.policies:
        if (by_name(PolicyType, policy.policy_type) or PolicyType.CUSTOM) is PolicyType.CUSTOM:
            for entry in policy.entries:
                if entry.resource == resource:
                    return acl, entry
    return acl, None


def _known(entry: AclEntry) -> list[Action]:
    return [one for one in (by_name(Action, name) for name in entry.actions) if one is not None]


def _info(username: str, entry: AclEntry) -> AclInfo:
    return AclInfo(policies=[AclPolicy(entries=[entry])], subject=SUBJECT_PREFIX + username)
