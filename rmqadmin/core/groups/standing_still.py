"""Tracks since when queues stand still, over successive readings of a group's offsets."""

from __future__ import annotations

from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.groups.lag_trend import stuck_queues
from rmqproto.bodies.base import MessageQueue


class StandingStill:
    """Call ``look`` for each reading. A queue stands still by the rule of ``stuck_queues``: messages waited at every
    reading, and the committed offset did not move."""

    def __init__(self) -> None:
        self._before: tuple[GroupOffsets, float] | None = None
        self._since_s: dict[MessageQueue, float] = {}

    def look(self, offsets: GroupOffsets, at_s: float) -> dict[MessageQueue, float]:
        """How many seconds each such queue has stood still. ``at_s``: from a monotonic clock."""
        if self._before is not None:
            before, before_s = self._before
            held = stuck_queues(before, offsets)
            self._since_s = {queue: self._since_s.get(queue, before_s) for queue in held}
        self._before = offsets, at_s
        return {queue: at_s - since_s for queue, since_s in self._since_s.items()}
