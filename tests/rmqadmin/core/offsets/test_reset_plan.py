"""What a reset says of all its queues."""

from collections.abc import Sequence

import msgspec
import pytest

from rmqadmin.core.offsets.reset import QueueReset
from rmqadmin.core.offsets.reset_plan import Resets
from rmqadmin.core.units import moment
from rmqproto.bodies.base import MessageQueue
from tests.support.quick import in_one_test


@pytest.mark.parametrize(("old", "lag"), [((None, None), None), ((None, 7), 3), ((10, 7), 3), ((12, 10), 0)])
def test_a_lag_that_nobody_knows_is_not_0(old: tuple[int | None, ...], lag: int | None) -> None:
    totals = Resets("G", "T", moved(old, (0, 0))).summary()
    assert (totals.old_lag_count, totals.new_lag_count) == (lag, 20)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ((None, None), "lag in 2 queues: unknown before, 20 after"),
        ((None, 7), "lag in 2 queues: ≥3 before, 20 after; 7 messages come again"),
        ((10, 7), "lag in 2 queues: 3 before, 20 after; 17 messages come again"),
    ],
)
def test_a_preview_says_where_the_lag_of_before_is_not_known(old: tuple[int | None, ...], said: str) -> None:
    """It used to be ≥0 for a group without offsets."""
    assert Resets("G", "T", moved(old, (0, 0))).lag_text() == said


@pytest.mark.parametrize(("old_offset", "again_count"), [(12, 0), (15, 3), (9, 7), (2, 0)])
def test_what_an_undone_reset_had_skipped_comes_for_the_first_time_only_to_a_group_that_went_on_from_there(
    old_offset: int, again_count: int
) -> None:
    """The reset went from 2 to 12. A group that was moved back since may have consumed what it skipped."""
    queue = QueueReset(MessageQueue("T", "b", 0), "h:1", 0, 20, old_offset, 2, undone_offset=12)
    assert queue.again_count == again_count


def test_a_queue_that_is_not_moved_keeps_its_lag() -> None:
    """It counted as 0 in the summary's sum."""
    resets = Resets("G", "T", moved((4, 4, None), (9, None, None)))
    assert (resets.summary().old_lag_count, resets.summary().new_lag_count) == (12, 7)
    assert resets.lag_text() == "lag in 3 queues: ≥12 before, ≥7 after; 5 left behind"
    assert Resets("G", "T", moved((None,), (None,))).summary().new_lag_count is None


@in_one_test(
    (7, 3, None, 4), (7, 9, None, 0), (7, 7, None, 0), (None, 0, None, 0), (7, None, None, 0),
    (12, 0, None, 10),  # past the end: the queue has ten messages
    (10, 2, 10, 0), (10, 2, 6, 4), (9, 2, 1, 7),  # undone: a skip, a skip after which 4 were consumed, a step back
)  # fmt: skip
def test_what_the_group_has_consumed_comes_again(
    old: int | None, new: int | None, undone: int | None, again: int
) -> None:
    (one,) = moved((old,), (new,))
    resets = Resets("G", "T", [msgspec.structs.replace(one, undone_offset=undone)])
    assert (resets.again_count, resets.rows()[0].again_count) == (again, again or None)
    assert (f"{again} messages come again" in resets.lag_text()) == (again > 0)
    assert (f"{again} messages that it has consumed come again" in resets.question("back")) == (again > 0)
    assert (resets.remark() is None) == (again == 0)


def test_what_is_deleted_already_does_not_come_again() -> None:
    (one,) = moved((7,), (0,))
    assert Resets("G", "T", [msgspec.structs.replace(one, min_offset=5)]).again_count == 2


def test_what_a_skip_leaves_behind_is_told() -> None:
    first, second, back = moved((4, 7, 9), (10, 9, 3))
    skips = [msgspec.structs.replace(first, min_offset=6, oldest_skipped_ms=1_700_000_000_000), second, back]
    resets = Resets("G", "T", skips)
    assert [row.skipped_count for row in resets.rows()] == [4, 2, None], "4 to 6 is deleted already"
    assert (resets.summary().skipped_count, resets.summary().oldest_skipped_ms) == (6, 1_700_000_000_000)
    since = f"the oldest of {moment(1_700_000_000_000)}"
    assert resets.lag_text().endswith(f"; 6 left behind, {since}")
    assert f" 6 messages that it has not consumed are left behind, {since}." in resets.question("to the end")
    assert "left behind" not in Resets("G", "T", [back]).lag_text()


def moved(old: Sequence[int | None], new: Sequence[int | None]) -> list[QueueReset]:
    """Queues of ten messages."""
    return [
        QueueReset(MessageQueue("T", "broker-a", number), "h:1", 0, 10, *offsets)
        for number, offsets in enumerate(zip(old, new, strict=True))
    ]
