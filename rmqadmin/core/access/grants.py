"""Plans grants and revocations of single actions on one broker. They add actions to an entry of a user's policies or
take them away, where `createAcl` and `updateAcl` replace the entry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core.access.acls import EACH, entry_back, entry_text, not_an_action
from rmqadmin.core.changes import KEEP, REPLACE, FieldChange, Step, action
from rmqproto.access.resources import Action, PolicyDecision, PolicyType, ResourcePattern, by_name
from rmqproto.access.users import SUBJECT_PREFIX
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy
from rmqproto.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def parse_actions(text: str) -> list[Action]:
    """The actions in a text such as ``Pub,sub``, each once. UsageError if there is none, and for an unknown action."""
    found = []
    for name in filter(None, (part.strip() for part in text.split(","))):
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
    act = admin.create_acl if acl is None else admin.update_acl
    step = _step(admin, addr, username, before, after, partial(act, addr, _info(username, after)))
    is_replaced = before is not None and not kept and step.action != KEEP
    return msgspec.structs.replace(step, action=REPLACE) if is_replaced else step


def plan_revocation(admin: AdminClient, addr: str, username: str, actions: Sequence[Action], resource: str) -> Step:
    """Plans a revocation: takes the actions from the resource's entry, and deletes the entry with its last action.
    NotFoundError if there is no such user."""
    _, before = _entry(admin, addr, username, resource)
    if before is None:
        return Step(addr, "keep", [], lambda: None)
    had = _known(before)
    if Action.ALL in actions:
        left = []
    else:
        left = [each for each in (EACH if Action.ALL in had else had) if each not in actions]
    if Action.ALL in had and left == list(EACH):
        left = [Action.ALL]
    if not left:
        act = partial(admin.delete_acl, addr, SUBJECT_PREFIX + username, resource)
        return _step(admin, addr, username, before, None, act)
    after = AclEntry(
        actions=[each.value for each in left],
        decision=before.decision,
        resource=before.resource,
        source_ips=before.source_ips,
    )
    return _step(admin, addr, username, before, after, partial(admin.update_acl, addr, _info(username, after)))


def _step(
    admin: AdminClient, addr: str, username: str, before: AclEntry | None, after: AclEntry | None, act: partial[None]
) -> Step:
    shown = [None if entry is None else entry_text(entry) for entry in (before, after)]
    named = before if before is not None else after
    assert named is not None
    changes = [FieldChange(named.resource or "", *shown)] if shown[0] != shown[1] else []
    what = "delete" if after is None else action(before, changes)
    back = entry_back(addr, SUBJECT_PREFIX + username, before, named.resource or "")
    return Step(addr, what, changes, act, [back])


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
