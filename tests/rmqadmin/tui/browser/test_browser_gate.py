"""Which requests the server of dashboards accepts, by their headers."""

from __future__ import annotations

import pytest

from rmqadmin.tui.browser.browser_server import BrowserGate
from tests.support.quick import in_one_test

PORT = 8188


@in_one_test(f"127.0.0.1:{PORT}", "localhost:9999", "LOCALHOST", "[::1]:80", "192.0.2.7:80", "desk.example:80")
def test_what_the_server_is_called(host: str) -> None:
    gate = BrowserGate({"desk.example"})
    assert gate.refusal(host, None) is None
    assert gate.refusal(host, f"http://{host}") is None


@in_one_test(
    None, "", "rebound.example:80", "localhost.rebound.example", "127.0.0.1.rebound.example", "[::1", "a@b", "127.1:x"
)
def test_a_name_that_somebody_else_may_have_led_here(host: str | None) -> None:
    assert BrowserGate({"desk.example"}).refusal(host, None)


@pytest.mark.parametrize("origin", ["null", "", "http://rebound.example", "http://127.0.0.1:81", "file://"])
def test_a_page_of_somebody_else(origin: str) -> None:
    assert BrowserGate().refusal(f"127.0.0.1:{PORT}", origin)


def test_a_token_is_known_whole_and_is_new_each_time() -> None:
    gate = BrowserGate()
    assert gate.knows(gate.token)
    assert not any(gate.knows(wrong) for wrong in (None, "", gate.token[:-1], f"{gate.token}x", "\udcff€"))
    assert gate.token != BrowserGate().token
