"""Host parts of addresses."""

from __future__ import annotations

import pytest

from rmqproto.hosts import is_loopback, is_port


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False),
     ("10.0.0.5", False), ("mq.example", False)],
)  # fmt: skip
def test_who_reaches_a_host(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("1", True), ("9876", True), ("65535", True), ("65536", False), ("0", False), ("-1", False), ("", False),
     ("x", False), ("٣", False), ("9" * 5000, False)],
)  # fmt: skip
def test_what_is_a_port(text: str, is_one: bool) -> None:
    assert is_port(text) is is_one
