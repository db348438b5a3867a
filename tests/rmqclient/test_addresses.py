"""Addresses as users write them."""

from __future__ import annotations

import pytest

from rmqclient.addresses import parse_addresses, split_address
from rmqproto.errors import UsageError


def test_several_addresses_are_joined_by_semicolons() -> None:
    assert parse_addresses(" a:1; b:2 ;") == ["a:1", "b:2"]
    assert parse_addresses("http://a:1;http://b:2") == ["a:1", "b:2"]  # the form of Apache's clients


def test_an_ipv6_host_stands_in_brackets() -> None:
    assert split_address("[::1]:9876") == ("::1", 9876)


def test_a_host_may_be_a_name() -> None:
    assert split_address("broker-1.example.:10911") == ("broker-1.example.", 10911)
    assert split_address("bücher.example:10911") == ("bücher.example", 10911)


@pytest.mark.parametrize("text", ["a:1,b:2", "a:1 b:2", "a b:1"])
def test_addresses_that_are_joined_otherwise_are_told_how(text: str) -> None:
    """They were looked up as the name of one host."""
    with pytest.raises(UsageError) as caught:
        parse_addresses(text)
    assert "joined by semicolons" in str(caught.value.hint)
    with pytest.raises(UsageError):
        split_address("a:1;b:2")


NONE = ["", ";", "host", "host:", ":9876", "host:port", "host:0", "host:65536", "host:٣", "host:" + "9" * 20]
UNKNOWABLE = ["a..b:9876", f"{'n' * 64}:9876", f"{'ü' * 64}:9876", "ü..b:9876"]


@pytest.mark.parametrize("text", [*NONE, *UNKNOWABLE])
def test_what_is_no_address_is_said_before_anything_is_sent(text: str) -> None:
    with pytest.raises(UsageError):
        parse_addresses(text)


@pytest.mark.parametrize("port", ["99999", "65536", "0"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    with pytest.raises(UsageError, match=f"'{port}' is not a port from 1 to 65535"):
        parse_addresses(f"host:{port}")
