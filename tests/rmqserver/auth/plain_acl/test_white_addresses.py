from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqserver.auth.plain_acl.white_addresses import WhiteAddresses


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", "", "10.0.0.1 ::1"),
        ("*", "10.0.0.1 ::1", ""),
        ("*.*.*.*", "10.0.0.1 ::1", ""),
        ("10.0.0.5", "10.0.0.5", "10.0.0.50 10.0.0.6 ::5"),
        ("10.0.0.5,10.0.1.7", "10.0.0.5 10.0.1.7", "10.0.0.7 10.0.1.5"),
        ("10.0.0.{5, 7}", "10.0.0.5 10.0.0.7", "10.0.0.6 10.0.1.5"),
        ("10.0.103.*", "10.0.103.0 10.0.103.255", "10.0.104.1 11.0.103.1 10.0.10.3"),
        ("10.0.*", "10.0.0.1 10.0.255.255", "10.1.0.1"),
        ("10.0.*.*", "10.0.0.1 10.0.255.255", "10.1.0.1"),
        ("10.0.0.1-9", "10.0.0.1 10.0.0.9", "10.0.0.0 10.0.0.10"),
        ("10.0.1-20.*", "10.0.1.7 10.0.20.0", "10.0.0.7 10.0.21.0"),
        ("10.0.1-20.5", "10.0.2.5", "10.0.2.6"),  # Apache ignores every part behind the range
        ("5::7", "5::7 5:0:0:0:0:0:0:7", "5::8 6::7 10.0.0.5"),
        ("5:7:6:1-200:*", "5:7:6:1:: 5:7:6:200:1:2:3:4", "5:7:6:201:: 5:7:6::"),
        ("5::7:{1,ac}", "5::7:1 5::7:AC", "5::7:2"),
        ("fe80::*", "fe80::1", "fe81::1"),
        ("::ffff:10.0.0.5", "::ffff:10.0.0.5 ::ffff:a00:5", "10.0.0.5 ::10.0.0.5 ::ffff:10.0.0.6"),
    ],
)
def test_what_a_pattern_matches(text: str, inside: str, outside: str) -> None:
    white = WhiteAddresses(text)
    assert [address for address in inside.split() if not white.has(address)] == []
    assert [address for address in outside.split() if white.has(address)] == []
    assert white.is_any == bool(inside)


@pytest.mark.parametrize(
    "text",
    ["10.0.0", "10.0.0.256", "10.0.0.9-1", "10.0.0.-5", "10.0.0.x", "10.0.0.1.2", "1:2:3", "1::2::3", "1:2:3:4:5:6:7:x",
     "10.0.0.{}", ",", "a.example", "10.0.0.1/8", "1:2:3:4:5:6:7:12345", "::ffff:10.0.0", "::10.0.0.5:7"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        WhiteAddresses(text)


@given(st.ip_addresses(), st.ip_addresses())
@example(ipaddress.IPv4Address("0.0.0.0"), ipaddress.IPv6Address("::ffff:0.0.0.0"))  # printed with dots since 3.13
@example(ipaddress.IPv6Address("::ffff:0.0.0.0"), ipaddress.IPv4Address("0.0.0.0"))
def test_an_address_matches_itself_alone(
    one: ipaddress.IPv4Address | ipaddress.IPv6Address, other: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> None:
    white = WhiteAddresses(str(one))
    assert white.has(str(one))
    assert white.has(str(other)) == (one == other)
