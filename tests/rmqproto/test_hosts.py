"""Host parts of addresses."""

from __future__ import annotations

import pytest

from rmqproto.hosts import is_loopback


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False),
     ("10.0.0.5", False), ("mq.example", False)],
)  # fmt: skip
def test_who_reaches_a_host(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own
