"""Whether a user may do something, and why: what ``DefaultAuthenticationHandler`` asks of a user and
``AclAuthorizationHandler`` of the policies (5.5.0). A broker decides by it, and tools foretell what a broker
will."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmqproto.access.policies import Acl, PolicyEntry
from rmqproto.access.resources import Action, PolicyDecision, Resource
from rmqproto.access.users import SUBJECT_PREFIX, User, UserStatus

NO_MATCH = "no matched policies."
IS_DENIED = "the decision is deny."


class Judgement(NamedTuple):
    """``refusal`` is what a broker answers with, and empty if the user may. ``entry`` is what decided; None if none of
    the user's matches, and for super users."""

    refusal: str
    entry: PolicyEntry | None = None

    @property
    def is_allowed(self) -> bool:
        return not self.refusal


def barred(name: str, user: User | None) -> str:
    """Why nobody may ask in this name, whatever they ask; empty if its user may. ``user`` is None if there is none."""
    if user is None:
        return f"{SUBJECT_PREFIX}{name} is not found."
    return f"{SUBJECT_PREFIX}{name} is disabled." if user.status is UserStatus.DISABLE else ""


def judge(user: User, acl: Acl | None, resource: Resource, actions: Sequence[Action], source_ip: str) -> Judgement:
    """Whether a user that is not barred may do one of the actions, from an address. ``acl`` is None without any."""
    if user.is_super:
        return Judgement("")
    entry = acl.decide(resource, actions, source_ip) if acl is not None else None
    if entry is not None and entry.decision is PolicyDecision.ALLOW:
        return Judgement("", entry)
    who = f"{SUBJECT_PREFIX}{user.name} has no permission to access {resource.key} from {source_ip}"
    return Judgement(f"{who}, {NO_MATCH if entry is None else IS_DENIED}", entry)
