"""The units of one queue, without a log."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.disk.segments import FileCache, SegmentedFile
from rmqserver.store.queues.consume_queue import ConsumeQueue

RECORD_SIZE = 100
NOWHERE = Path("/nonexistent")


def queue_with(offsets: list[int]) -> ConsumeQueue:
    """A queue whose records have these queue offsets and follow each other in the log. Nothing is in a file yet."""
    disk = OsDisk()
    queue = ConsumeQueue("T", 0, SegmentedFile(str(NOWHERE), 20 * 1000, disk, FileCache(disk, 1)))
    for number, offset in enumerate(offsets):
        queue.append_recovered(offset, number * RECORD_SIZE, RECORD_SIZE, 0)
    return queue


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(0, 12))
def test_gap_in_the_middle_hides_nothing_before_it(steps: list[int], forgotten: int) -> None:
    """The log may lack records of a queue. Records on both sides of the gap are found by their log offset."""
    offsets = [sum(steps[:count]) for count in range(1, len(steps) + 1)]
    queue = queue_with(offsets)
    queue.forget_before(forgotten * RECORD_SIZE)
    assert queue.min_offset == (offsets[forgotten] if forgotten < len(offsets) else queue.max_offset)
