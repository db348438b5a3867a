"""A broker's time, computed from its start and its uptime."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.health.broker_checks import broker_time_ms, clock_skew_ms
from rmqserver.broker.admin.runtime_info import runtime_text

BOOT_MS = 1_700_000_000_000


def told(boot_ms: int, now_ms: int) -> dict[str, str]:
    """The answer of a broker whose clock shows ``now_ms``."""
    return {"bootTimestamp": str(boot_ms), "runtime": runtime_text(now_ms - boot_ms)}


@given(st.integers(0, 10**11), st.integers(-(10**9), 10**9), st.integers(0, 5000))
def test_a_clock_that_is_right_is_never_called_wrong_and_one_that_is_wrong_by_more_than_it_took_is(
    running_ms: int, skew_ms: int, took_ms: int
) -> None:
    asked_ms = BOOT_MS + running_ms + 10**9
    answered_ms = asked_ms + took_ms
    boot_ms = asked_ms + skew_ms - running_ms
    found = clock_skew_ms(told(boot_ms, asked_ms + skew_ms), asked_ms, answered_ms)
    assert found is not None
    assert abs(found) <= abs(skew_ms)
    assert found == 0 or (found > 0) == (skew_ms > 0)
    assert abs(found) >= abs(skew_ms) - took_ms - 1000


def test_a_broker_that_does_not_say_has_no_time() -> None:
    for info in ({}, {"bootTimestamp": "1"}, {"bootTimestamp": "x", "runtime": runtime_text(1)}, {"runtime": "[ ]"}):
        assert broker_time_ms(info) is None
        assert clock_skew_ms(info, 0, 0) is None
