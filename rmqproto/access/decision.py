"""Whether a user may do something, and why: the checks of ``DefaultAuthenticationHandler`` on the user and of
``AclAuthorizationHandler`` on the policies (5.5.0). A broker decides by it, and tools predict a broker's decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmqproto.access.policies import Acl, PolicyEntry
from rmqproto.access.resources import Action, PolicyDecision, Resource
from rmqproto.access.users import SUBJECT_PREFIX, User, UserStatus

NO_MATCH = "no matched policies."
IS_DENIED = "the decision is deny."


class Judgement(NamedTuple):
    """``refusal`` is the broker's answer, empty if the user is allowed. ``entry`` is the entry that decided; None if
    none of the user's matches, and for super users."""

    refusal: str
    entry: PolicyEntry | None = None

    @property
    def is_allowed(self) -> bool:
        return not self.refusal


def barred(name: str, user: User | None) -> str:
    """Why this user may not make any request; empty if there is no such reason. ``user`` is None for an unknown
    name."""
    if user is None:
        return f"{SUBJECT_PREFIX}{name} is not found."
    return f"{SUBJECT_PREFIX}{name} is disabled." if user.status is UserStatus.DISABLE else ""


def judge(user: User, acl: Acl | None, resource: Resource, actions: Sequence[Action], source_ip: str) -> Judgement:
    """Whether a user that is not barred may do one of the actions, from an address. ``acl`` is None if the user has no
    policies."""
    if user.is_super:
        return Judgement("")
    entry = acl.decide(resource, actions, source_ip) if acl is not None else None
    if entry is not None and entry.decision is PolicyDecision.ALLOW:
        return Judgement("", entry)
    who = f"{SUBJECT_PREFIX}{user.name} has no permission to access {resource.key} from {source_ip}"
    return Judgement(f"{who}, {NO_MATCH if entry is None else IS_DENIED}", entry)
