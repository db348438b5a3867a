"""The units of a broker's state values."""

from __future__ import annotations

import pytest

from rmqadmin.core.results import columns
from rmqadmin.core.servers.broker_state import StatusRow


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("pageCacheLockTimeMills", "value_ms"), ("putMessageEntireTimeMax", "value_ms"), ("putLatency999", "value_ms"),
        ("masterLeaseLeftMs", "value_ms"), ("timerReadBehind", "value_s"), ("dispatchBehindBytes", "value_bytes"),
        ("commitLogDiskRatio_/a", "value_ratio"), ("putTps", "value_tps"), ("putMessageTimesTotal", "value"),
    ],
)  # fmt: skip
def test_a_value_has_the_unit_that_its_name_ends_with(name: str, column: str) -> None:
    row = StatusRow(broker_addr="a:1", name=name, value=8300)
    given = next(one for one in columns(StatusRow) if one.name == "value")
    assert row.column_of(given).name == column
