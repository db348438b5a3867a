"""Where connections go instead of to an advertised address."""

from __future__ import annotations

import msgspec
import pytest

from rmqclient.addresses import NO_MAP, AddressMap, parse_address_map, split_rules
from rmqproto.errors import UsageError


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("10.0.0.1:10911", ("near", 1)),  # the rule for the port, though that for the host comes first
        ("10.0.0.1:10912", ("any", 10912)),
        ("10.0.0.2:10911", ("two", 10911)),
        ("10.0.0.2:10912", ("10.0.0.2", 10912)),
        ("BROKER:7", ("::1", 8)),
        ("[fe80::1]:5", ("10.0.0.1", 5)),  # not mapped again
        ("other:5", ("other", 5)),
    ],
)
def test_one_rule_at_most_decides(address: str, endpoint: tuple[str, int]) -> None:
    text = "10.0.0.1=any, 10.0.0.1:10911=near:1,10.0.0.2:10911=two,Broker=[::1]:8,[fe80::1]=10.0.0.1,"
    rules = parse_address_map(split_rules(text))
    assert rules.endpoint(address) == endpoint
    assert parse_address_map(split_rules(rules.text())) == rules
    assert msgspec.json.decode(msgspec.json.encode(rules), type=AddressMap) == rules, "as Spark's tasks get it"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("a", "no ="),
        ("", "no ="),
        ("=b", "'' is neither"),
        ("a=", "'' is neither"),
        ("a:0=b", "'a:0' is neither"),
        ("a=b:65536", "'b:65536' is neither"),
        ("::1=b", "in brackets"),
        ("[a]=b", "in brackets"),
        ("a=b=c", "'b=c'"),
        ("a=b,c=d", "'b,c=d'"),
        ("a=http://b", "neither"),
    ],
)
def test_a_bad_rule_is_refused(rule: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_address_map([rule])
    assert words in str(refused.value)
    assert "HOST[:PORT]=HOST[:PORT]" in (refused.value.hint or "")


def test_two_rules_about_one_address_are_refused() -> None:
    with pytest.raises(UsageError, match="two rules map the address A"):
        parse_address_map(["a=b", "a:1=c", "A=d"])


def test_an_error_says_where_the_connection_went() -> None:
    rules = AddressMap((("a", "[::1]"), ("b", "c:2")))
    assert [rules.by_way(each) for each in ("a:1", "b:1", "c:1")] == [
        " (mapped to [::1]:1)", " (mapped to c:2)", "",
    ]  # fmt: skip
    assert NO_MAP.by_way("a:1") == ""
