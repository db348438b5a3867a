"""How many messages of each queue a group has popped and not settled (``PopInflightMessageCounter``, 5.5.0). The counts
start at zero whenever the broker starts: they bound the memory of consumers, and are not exact."""

from __future__ import annotations

QueueOfGroup = tuple[str, str, int]
"""Topic, group, queue id."""


class InFlight:
    def __init__(self, started_ms: int):
        self._started_ms = started_ms
        self._counts: dict[QueueOfGroup, int] = {}

    def count(self, topic: str, group: str, queue_id: int) -> int:
        return self._counts.get((topic, group, queue_id), 0)

    def popped(self, topic: str, group: str, queue_id: int, message_count: int) -> None:
        key = topic, group, queue_id
        self._counts[key] = self._counts.get(key, 0) + message_count

    def settled(self, topic: str, group: str, queue_id: int, pop_time_ms: int, message_count: int) -> None:
        """Counts messages as settled: acknowledged, come again, or popped for nothing."""
        key = topic, group, queue_id
        left = self._counts.get(key, 0) - message_count
        if pop_time_ms < self._started_ms:
            return
        if left > 0:
            self._counts[key] = left
        else:
            self._counts.pop(key, None)
