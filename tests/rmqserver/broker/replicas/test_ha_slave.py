"""What a slave says to its master, without either."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.config import BrokerConfig


class Reports:
    """A stream that takes them, when it is waited for."""

    def __init__(self) -> None:
        self.count = 0
        self.socket = self

    def fileno(self) -> int:
        return -1

    async def send_all(self, data: bytes) -> None:
        self.count += 1


@pytest.mark.trio
async def test_it_goes_on_to_report_when_its_clock_is_set_back(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was silent until the clock had come as far again, and a master hangs up on who is silent."""
    slave = HaSlave(BrokerConfig(), cast(Any, None))
    copy, reports = SimpleNamespace(end_offset=0), Reports()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave._report_regularly, cast(Any, reports), cast(Any, copy))
        await trio.testing.wait_all_tasks_blocked()
        an_hour_ago_s = time.time() - 3600
        monkeypatch.setattr(time, "time", lambda: an_hour_ago_s)
        monkeypatch.setattr(time, "time_ns", lambda: int(an_hour_ago_s * 1e9))
        before = reports.count
        await trio.sleep(20)  # haHousekeepingInterval: so long a master waits
        assert reports.count > before
        nursery.cancel_scope.cancel()
