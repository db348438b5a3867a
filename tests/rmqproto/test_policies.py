"""Which entry of a subject's policies decides, checked against an evaluator that applies the rules one after the
other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.access.policies import Acl, BadPolicy
from rmqproto.access.resources import Action, PolicyDecision, PolicyType, Resource, ResourcePattern, ResourceType
from rmqproto.bodies.acl import AclEntry, AclPolicy
from tests.support.quick import in_one_test

NAMES = ("a", "ab", "abc", "b")
PATTERNS = (
    "*",
    *(f"{kind}:{name}" for kind in ("Topic", "Group") for name in ("*", "a*", "ab*", "a", "ab", "abc", "b")),
)
IPS = ("127.0.0.1", "10.0.0.7", "10.1.0.7", "::1")
SOURCES = (None, ["127.0.0.1"], ["10.0.0.0/16"], ["10.0.0.0/16", "::1"], ["::/0"])
IN_SOURCE = {
    "127.0.0.1": {0, 1}, "10.0.0.7": {0, 2, 3}, "10.1.0.7": {0}, "::1": {0, 3, 4},
}  # fmt: skip
"""Indexes into SOURCES, by address."""

entries = st.builds(
    lambda resource, actions, source, decision: AclEntry(
        resource=resource, actions=actions, source_ips=SOURCES[source], decision=decision
    ),
    st.sampled_from(PATTERNS),
    st.lists(st.sampled_from(["All", "Pub", "sub", "GET"]), min_size=1, max_size=2),
    st.integers(0, len(SOURCES) - 1),
    st.sampled_from(["Allow", "Deny"]),
)
policies = st.lists(
    st.builds(
        lambda policy_type, some: AclPolicy(policy_type=policy_type, entries=some),
        st.sampled_from(["Custom", "Default", None]),
        st.lists(entries, min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=3,
)
resources = st.builds(Resource, st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]), st.sampled_from(NAMES))


def plainly(body: list[AclPolicy], resource: Resource, actions: set[str], ip: str) -> str | None:
    """The decision, computed as the documentation describes it. None if no entry matches."""

    def matches(entry: AclEntry) -> bool:
        wanted = entry.resource or ""
        kind, _, name = wanted.partition(":")
        fits = wanted == "*" or (
            kind == resource.type.value
            and (resource.name.startswith(name[:-1]) if name.endswith("*") else resource.name == name)
        )
        allowed = {action.lower() for action in entry.actions}
        return fits and bool(allowed & (actions | {"all"})) and SOURCES.index(entry.source_ips) in IN_SOURCE[ip]

    for wanted in ({"Custom", None}, {"Default"}):
        found = [entry for policy in body if policy.policy_type in wanted for entry in policy.entries if matches(entry)]
        exact = [entry for entry in found if "*" not in (entry.resource or "")]
        prefixed = sorted(
            (entry for entry in found if len((entry.resource or "").partition(":")[2]) > 1 and entry not in exact),
            key=lambda entry: -len(entry.resource or ""),
        )
        longest = [entry for entry in prefixed if entry.resource == prefixed[0].resource]
        of_type = [entry for entry in found if (entry.resource or "").endswith(":*")]
        everything = [entry for entry in found if entry.resource == "*"]
        for some in (exact, longest, of_type, everything):
            if some:
                return "Deny" if any(entry.decision == "Deny" for entry in some) else "Allow"
    return None


@given(policies, resources, st.sets(st.sampled_from(["pub", "sub", "get", "update"]), min_size=1), st.sampled_from(IPS))
def test_the_deciding_entry_is_that_of_the_plain_rules(
    body: list[AclPolicy], resource: Resource, actions: set[str], ip: str
) -> None:
    found = Acl(body).decide(resource, [Action[name.upper()] for name in sorted(actions)], ip)
    assert (found.decision.value if found else None) == plainly(body, resource, actions, ip)


@given(policies, policies)
def test_an_update_keeps_one_entry_of_each_resource_that_it_names(
    before: list[AclPolicy], changes: list[AclPolicy]
) -> None:
    update = Acl(changes)
    after = Acl(before).updated(update)
    for policy_type in PolicyType:
        named = {entry.pattern: entry for entry in update._policies.get(policy_type, ())}
        kept = after._policies.get(policy_type, [])
        for pattern, entry in named.items():
            assert next(each for each in kept if each.pattern == pattern) == entry


@given(policies)
def test_what_is_written_is_read_again(body: list[AclPolicy]) -> None:
    acl = Acl(body)
    assert Acl(acl.body("User:a").policies)._policies == acl._policies


def entry(**change: object) -> AclEntry:
    return AclEntry(**({"resource": "Topic:T", "actions": ["Pub"], "decision": "Allow"} | change))  # type: ignore[arg-type]


@in_one_test(
    (entry(resource=None), "The resource is null."),
    (entry(resource="T"), "The resource is null."),
    (entry(resource="Queue:T"), "The resource is null."),
    (entry(actions=[]), "The actions is empty."),
    (entry(actions=["Publish"]), "The actions is empty."),
    (entry(actions=["Pub", "any"]), "The actions can not be Any."),
    (entry(source_ips=[" "]), "The source ip is empty."),
    (entry(source_ips=["10.0.0.256"]), "The source ip is invalid."),
    (entry(source_ips=["10.0.0.0/33"]), "The source ip is invalid."),
    (entry(source_ips=["10.0.0.0/255.0.0.0"]), "The source ip is invalid."),
    (entry(source_ips=["localhost"]), "The source ip is invalid."),
    (entry(decision=None), "The decision is null or illegal."),
    (entry(decision="Maybe"), "The decision is null or illegal."),
)
def test_what_is_no_entry_is_refused_in_apaches_words(bad: AclEntry, remark: str) -> None:
    with pytest.raises(BadPolicy, match=f"^{remark}$".replace(".$", r"\.$")):
        Acl([AclPolicy(entries=[bad])])


def test_policies_without_entries_are_none() -> None:
    with pytest.raises(BadPolicy, match="The policies is empty"):
        Acl([AclPolicy(policy_type="Custom")])


@pytest.mark.parametrize(
    ("text", "key"),
    [("topic:T", "Topic:T"), ("GROUP:g*", "Group:g*"), ("Topic:*", "Topic:*"), ("*", "*"), ("Topic:a*b*", "Topic:a*")],
)
def test_a_resource_is_spelled_as_apache_spells_it(text: str, key: str) -> None:
    pattern = ResourcePattern.parse(text)
    assert pattern.key == key


def test_on_a_tie_deny_wins() -> None:
    acl = Acl([AclPolicy(entries=[entry(), entry(decision="Deny"), entry()])])
    found = acl.decide(Resource(ResourceType.TOPIC, "T"), [Action.PUB], "127.0.0.1")
    assert found.decision is PolicyDecision.DENY
