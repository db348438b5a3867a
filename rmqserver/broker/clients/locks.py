"""Which consumer may consume a queue in order (``RebalanceLockManager``, 5.5.0). A lock that is not renewed for a
minute is free for anyone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rmqproto.bodies.base import MessageQueue
from rmqproto.names import RETRY_OR_DLQ_TOPIC_LENGTH_MAX, group_problem

LOCK_LIFE_MS = 60_000
"""Apache's rocketmq.broker.rebalance.lockMaxLiveTime. Clients renew every 20 s."""

LOCKS_MAX = 100_000
"""Locks held by all groups together; no more are granted. Whether a queue exists is not checked."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class QueueLocks:
    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(self, group: str, client_id: str, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Takes or renews the locks that are free or the client's own. Returns the queues that the client now holds."""
        now_ms = self._clock_ms()
        if group_problem(group):
            return []
        locks = self._locks.setdefault(group, {})
        held = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None and (self._count >= LOCKS_MAX or len(queue.topic) > RETRY_OR_DLQ_TOPIC_LENGTH_MAX):
                continue
            self._count += lock is None
            if lock is None or lock.client_id == client_id or now_ms - lock.renewed_ms > LOCK_LIFE_MS:
                locks[queue] = _Lock(client_id, now_ms)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        """Releases the locks that the client holds."""
        locks = self._locks.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._locks.pop(group, None)

    def is_any_held(self, group: str) -> bool:
        """Whether the group consumes in order at present."""
        oldest_ms = self._clock_ms() - LOCK_LIFE_MS
        return any(lock.renewed_ms >= oldest_ms for lock in self._locks.get(group, {}).values())

    def expire(self) -> None:
        """Forgets expired locks."""
        oldest_ms = self._clock_ms() - LOCK_LIFE_MS
        for group, locks in list(self._locks.items()):
            for queue in [queue for queue, lock in locks.items() if lock.renewed_ms < oldest_ms]:
                del locks[queue]
                self._count -= 1
            if not locks:
                del self._locks[group]
