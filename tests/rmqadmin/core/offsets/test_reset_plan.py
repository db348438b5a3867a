"""What a reset says of all its queues."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rmqadmin.core.offsets.reset import QueueReset
from rmqadmin.core.offsets.reset_plan import Resets
from rmqproto.bodies.base import MessageQueue


@pytest.mark.parametrize(("old", "lag"), [((None, None), None), ((None, 7), 3), ((10, 7), 3), ((12, 10), 0)])
def test_a_lag_that_nobody_knows_is_not_0(old: tuple[int | None, ...], lag: int | None) -> None:
    totals = Resets("G", "T", moved(old, (0, 0))).summary()
    assert (totals.old_lag_count, totals.new_lag_count) == (lag, 20)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ((None, None), "lag in 2 queues: unknown before, 20 after"),
        ((None, 7), "lag in 2 queues: ≥3 before, 20 after"),
        ((10, 7), "lag in 2 queues: 3 before, 20 after"),
    ],
)
def test_a_preview_says_where_the_lag_of_before_is_not_known(old: tuple[int | None, ...], said: str) -> None:
    """It used to be ≥0 for a group without offsets."""
    assert Resets("G", "T", moved(old, (0, 0))).lag_text() == said


def test_a_queue_that_is_not_moved_keeps_its_lag() -> None:
    """It counted as 0 in the summary's sum."""
    resets = Resets("G", "T", moved((4, 4, None), (9, None, None)))
    assert (resets.summary().old_lag_count, resets.summary().new_lag_count) == (12, 7)
    assert resets.lag_text() == "lag in 3 queues: ≥12 before, ≥7 after"
    assert Resets("G", "T", moved((None,), (None,))).summary().new_lag_count is None


def moved(old: Sequence[int | None], new: Sequence[int | None]) -> list[QueueReset]:
    """Queues of ten messages."""
    return [
        QueueReset(MessageQueue("T", "broker-a", number), "h:1", 0, 10, *offsets)
        for number, offsets in enumerate(zip(old, new, strict=True))
    ]
