"""The progress in one half queue. All offsets here are queue offsets: of the half queue, and of the op queue with the
same queue id, whose messages say which half messages have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class HalfQueue:
    """``half_offset``: all half messages before it are dealt with. ``op_offset``: all op messages before it name only
    such half messages. ``read_offset`` is the next op message to read."""

    def __init__(self, queue_id: int, half_offset: int, op_offset: int):
        self.queue_id = queue_id
        self.half_offset = half_offset
        self.op_offset = self.read_offset = op_offset
        self._ended: set[int] = set()
        """The half offsets from ``half_offset`` on that are dealt with."""
        self._ops: deque[tuple[int, int]] = deque()
        """Op messages from ``op_offset`` on, each with the highest half offset in it."""

    def end(self, half_offset: int) -> None:
        """Notes that the half message there is dealt with: committed, rolled back, put back to the end, or given up."""
        if half_offset >= self.half_offset:
            self._ended.add(half_offset)

    def op_read(self, half_offsets: Iterable[int]) -> None:
        """Takes the op message at ``read_offset``."""
        highest = -1
        for half_offset in half_offsets:
            self.end(half_offset)
            highest = max(highest, half_offset)
        self._ops.append((self.read_offset, highest))
        self.read_offset += 1

    def advance(self) -> None:
        """Moves both offsets past what is dealt with."""
        while self.half_offset in self._ended:
            self._ended.remove(self.half_offset)
            self.half_offset += 1
        while self._ops and self._ops[0][1] < self.half_offset:
            self.op_offset = self._ops.popleft()[0] + 1

    def skip_to(self, half_min_offset: int, op_min_offset: int) -> None:
        """Moves past what stood before these offsets, which retention has deleted."""
        if half_min_offset > self.half_offset:
            self.half_offset = half_min_offset
            self._ended = {offset for offset in self._ended if offset >= half_min_offset}
        self.op_offset = max(self.op_offset, op_min_offset)
        self.read_offset = max(self.read_offset, op_min_offset)

    def is_ended(self, half_offset: int) -> bool:
        return half_offset < self.half_offset or half_offset in self._ended

    def open_run(self, start: int, count_max: int) -> tuple[int, int]:
        """The first offset from ``start`` on that is not dealt with, and how many such offsets follow each other
        there."""
        while self.is_ended(start):
            start += 1
        count = 1
        while count < count_max and not self.is_ended(start + count):
            count += 1
        return start, count
