"""The policies of one subject, and their decision on a request (``Acl``, ``Policy``, ``PolicyEntry`` and
``AclAuthorizationHandler``, 5.5.0).

Entries of the Custom policy come first. Those of the Default policy count only if no Custom entry matches. Among the
matching entries the one with the most exact resource decides. If two are equally exact, Deny wins. Apache's sort puts
Allow first in that case, against its own comment.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rmqproto.access.resources import Action, PolicyDecision, PolicyType, Resource, ResourcePattern, by_name
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy

ENTRIES_MAX = 10_000
"""The limit for one subject. Apache has none."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class BadPolicy(ValueError):
    """A policy that Apache's broker refuses, in its words."""


class PolicyEntry(NamedTuple):
    """``networks`` is None if the entry holds for all addresses; ``source_ips`` is its original text."""

    pattern: ResourcePattern
    actions: tuple[Action, ...]
    source_ips: tuple[str, ...] | None
    networks: tuple[Network, ...] | None
    decision: PolicyDecision

    @classmethod
    def parse(cls, entry: AclEntry) -> PolicyEntry:
        """An entry from a request's body. BadPolicy for the first error, in Apache's order."""
        pattern = ResourcePattern.parse(entry.resource)
        if pattern is None:
            raise BadPolicy("The resource is null.")
        named = [by_name(Action, name) for name in entry.actions or ()]
        actions = tuple(action for action in named if action is not None)
        if not actions:
            raise BadPolicy("The actions is empty.")
        if Action.ANY in actions:
            raise BadPolicy("The actions can not be Any.")
        source_ips = tuple(entry.source_ips) if entry.source_ips else None
        networks = None if source_ips is None else tuple(_network(text) for text in source_ips)
        decision = by_name(PolicyDecision, entry.decision)
        if decision is None:
            raise BadPolicy("The decision is null or illegal.")
        return cls(pattern, actions, source_ips, networks, decision)

    def body(self) -> AclEntry:
        return AclEntry(
            actions=[action.value for action in self.actions],
            decision=self.decision.value,
            resource=self.pattern.key,
            source_ips=None if self.source_ips is None else list(self.source_ips),
        )

    def is_about(self, resource: Resource, actions: Sequence[Action]) -> bool:
        return self.pattern.matches(resource) and (
            Action.ALL in self.actions or not set(actions).isdisjoint(self.actions)
        )

    def matches(self, resource: Resource, actions: Sequence[Action], source_ip: str) -> bool:
        return self.is_about(resource, actions) and (self.networks is None or _is_in(source_ip, self.networks))


def _network(text: str) -> Network:
    if not text.strip():
        raise BadPolicy("The source ip is empty.")
    address, slash, prefix = text.partition("/")
    try:
        if slash and not (prefix.isascii() and prefix.isdecimal()):
            raise ValueError("a number of bits is needed")
        return ipaddress.ip_network(f"{ipaddress.ip_address(address)}{slash}{prefix}", strict=False)
    except ValueError:
        raise BadPolicy("The source ip is invalid.") from None


def _is_in(source_ip: str, networks: Iterable[Network]) -> bool:
    address = ipaddress.ip_address(source_ip.partition("%")[0])
    return any(address in network for network in networks)


class Acl:
    """The policies of one subject by type, each with its entries by resource, in the order of their creation."""

    def __init__(self, policies: Iterable[AclPolicy]):
        """BadPolicy if a policy is not valid, or if they are not valid together."""
        self._policies: dict[PolicyType, list[PolicyEntry]] = {}
        for policy in policies:
            if not policy.entries:
                continue
            policy_type = by_name(PolicyType, policy.policy_type) or PolicyType.CUSTOM
            entries = [PolicyEntry.parse(entry) for entry in policy.entries]
            self._policies.setdefault(policy_type, []).extend(entries)
        if not self._policies:
            raise BadPolicy("The policies is empty.")
        self._check_size()

    @property
    def is_empty(self) -> bool:
        return not self._policies

    def updated(self, changes: Acl) -> Acl:
        """These policies with the entries of ``changes``, which replace entries for the same resource. BadPolicy if
        there are too many."""
        after = self._copy()
        for policy_type, entries in changes._policies.items():
            known = after._policies.setdefault(policy_type, [])
            for entry in entries:
                index = next((i for i, old in enumerate(known) if old.pattern == entry.pattern), len(known))
                known[index : index + 1] = [entry]
        after._check_size()
        return after

    def without(self, policy_type: PolicyType, pattern: ResourcePattern) -> Acl:
        """These policies without the entry for that resource, if there is one."""
        after = self._copy()
        entries = after._policies.get(policy_type, [])
        index = next((i for i, entry in enumerate(entries) if entry.pattern == pattern), len(entries))
        del entries[index : index + 1]
        if not entries:
            after._policies.pop(policy_type, None)
        return after

    def body(self, subject: str, resource_filter: str = "") -> AclInfo:
        """The policies as a body, with the entries whose resource contains ``resource_filter``. Without such entries
        it has no policies."""
        policies = []
        for policy_type, entries in self._policies.items():
            wanted = [entry.body() for entry in entries if resource_filter in entry.pattern.key]
            if wanted:
                policies.append(AclPolicy(entries=wanted, policy_type=policy_type.value))
        return AclInfo(policies=policies, subject=subject)

    def decide(self, resource: Resource, actions: Sequence[Action], source_ip: str) -> PolicyEntry | None:
        """The entry that decides whether any of the actions is allowed; None if no entry matches."""
        for policy_type in PolicyType:
            entries = self._policies.get(policy_type, ())
            found = [entry for entry in entries if entry.matches(resource, actions, source_ip)]
            if found:
                return max(found, key=lambda entry: (entry.pattern.rank, entry.decision is PolicyDecision.DENY))
        return None

    def depends_on_address(self, resource: Resource, actions: Sequence[Action]) -> bool:
        """Whether a matching entry holds only for some addresses."""
        return any(
            entry.networks is not None and entry.is_about(resource, actions)
            for entries in self._policies.values()
            for entry in entries
        )

    def _copy(self) -> Acl:
        copy = Acl.__new__(Acl)
        copy._policies = {policy_type: list(entries) for policy_type, entries in self._policies.items()}
        return copy

    def _check_size(self) -> None:
        if sum(map(len, self._policies.values())) > ENTRIES_MAX:
            raise BadPolicy(f"The policy entries are more than {ENTRIES_MAX}.")
