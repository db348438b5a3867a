"""Rates over the last minute."""

from __future__ import annotations

import pytest

from rmqclient.consuming.rates import Rates


def test_rates_are_of_the_last_minute() -> None:
    rates = Rates()
    rates.consumed("T", 100.0, 4.0, is_success=True)
    rates.consumed("T", 100.0, 8.0, is_success=False)
    rates.pulled("T", 101.0, 30, 2.5)
    status = rates.status_table(102.0)["T"]
    assert status.consume_ok_tps == pytest.approx(1 / 60)
    assert status.consume_failed_tps == pytest.approx(1 / 60)
    assert status.consume_failed_msgs == 1
    assert status.consume_rt == pytest.approx(6.0)
    assert status.pull_tps == pytest.approx(0.5)
    assert status.pull_rt == pytest.approx(2.5)


def test_what_is_older_is_forgotten() -> None:
    """Otherwise a consumer that stopped consuming would look busy forever."""
    rates = Rates()
    rates.consumed("T", 100.0, 4.0, is_success=True)
    assert rates.status_table(155.0)["T"].consume_ok_tps > 0
    assert rates.status_table(165.0)["T"].consume_ok_tps == 0
    for second in range(1000):
        rates.consumed("T", 200.0 + second, 1.0, is_success=True)
    assert rates.status_table(1199.0)["T"].consume_ok_tps == pytest.approx(1.0)
