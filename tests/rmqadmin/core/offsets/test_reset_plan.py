"""What a reset says of all its queues."""

from __future__ import annotations

import pytest

from rmqadmin.core.offsets.reset import QueueReset
from rmqadmin.core.offsets.reset_plan import Resets
from rmqproto.bodies.base import MessageQueue


@pytest.mark.parametrize(("old", "lag"), [((None, None), None), ((None, 7), 3), ((10, 7), 3), ((12, 10), 0)])
def test_a_lag_that_nobody_knows_is_not_0(old: tuple[int | None, ...], lag: int | None) -> None:
    queues = [
        QueueReset(MessageQueue("T", "broker-a", number), "h:1", 0, 10, offset, 0) for number, offset in enumerate(old)
    ]
    totals = Resets("G", "T", queues).summary()
    assert (totals.old_lag_count, totals.new_lag_count) == (lag, 20)
