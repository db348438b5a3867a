"""What one queue of the revive log says at present: which check points are open, what of each is acknowledged, which is
due, and up to where the queue is done with. Kept in memory, and read again from there after a start."""

from __future__ import annotations

import heapq

import msgspec

from rmqproto.bodies.popping import AckMessage, CheckPoint
from rmqproto.errors import ProtocolError
from rmqserver.broker.consuming.pop.revive_log import MergeKey, ReviveEntry, merge_key

REVIVE_MARGIN_MS = 2000
"""How much later than its time a check point is due: acknowledgements are on their way (Apache: ackTimeInterval and a
second)."""

ACK_WAITS_MS = 180_000
"""How long an acknowledgement waits for its check point (reviveAckWaitMs). Only one that Apache's timers still hold
comes after its acknowledgements; all others that find none came too late."""

MESSAGES_MAX = 127
"""Of one check point: Apache keeps their number in a byte."""

_STALE_MAX = 1000
"""Times in the heap of check points that are closed; with more than twice as many as are open, it is made anew."""


class Open(msgspec.Struct):
    """A check point that is not done with. ``waiting``: the queue offsets of its messages that are not acknowledged and
    have not come again. ``store_host`` is that of its entry."""

    check_point: CheckPoint
    revive_offset: int
    due_ms: int
    waiting: list[int]
    store_host: bytes


class _Early(msgspec.Struct):
    """Acknowledgements without a check point."""

    revive_offset: int
    until_ms: int
    offsets: set[int]


class ReviveQueue:
    """``next_offset`` is the revive queue's offset to be read next."""

    def __init__(self, next_offset: int):
        self.next_offset = next_offset
        self._open: dict[MergeKey, Open] = {}  # in the order of the queue
        self._early: dict[MergeKey, _Early] = {}  # as well
        self._due: list[tuple[int, int, MergeKey]] = []

    @property
    def open_count(self) -> int:
        """Open check points."""
        return len(self._open)

    @property
    def done_offset(self) -> int:
        """The last offset that no start need read again, as Apache commits it; -1: the queue must be read whole."""
        first_open, first_early = next(iter(self._open.values()), None), next(iter(self._early.values()), None)
        needed = [each.revive_offset for each in (first_open, first_early) if each is not None]
        return min([self.next_offset, *needed]) - 1

    def is_first(self, open_one: Open) -> bool:
        """Whether nothing before it keeps a start from passing it over once it is closed."""
        return self.done_offset == open_one.revive_offset - 1

    def take(self, entry: ReviveEntry) -> None:
        """The next of the queue. ProtocolError for a check point that cannot be; it is passed over then."""
        self.next_offset = entry.queue_offset + 1
        if isinstance(entry.body, CheckPoint):
            self._take_check_point(entry.body, entry)
        else:
            self._take_ack(entry.body, entry)

    def _take_check_point(self, check_point: CheckPoint, entry: ReviveEntry) -> None:
        if not 0 <= check_point.message_count <= MESSAGES_MAX:
            raise ProtocolError(f"a check point of {check_point.message_count} messages")
        key = merge_key(check_point)
        early = self._early.pop(key, None)
        waiting = check_point.offsets
        if check_point.bit_map:
            waiting = [offset for number, offset in enumerate(waiting) if not check_point.bit_map >> number & 1]
        if early is not None:
            waiting = [offset for offset in waiting if offset not in early.offsets]
        self._open.pop(key, None)  # or the newer one would stand at the place of the older
        if waiting:
            revive_ms = check_point.pop_time + check_point.invisible_time
            due_ms = max(revive_ms, entry.store_timestamp_ms) + REVIVE_MARGIN_MS
            self._open[key] = Open(check_point, entry.queue_offset, due_ms, waiting, entry.store_host)
            heapq.heappush(self._due, (due_ms, entry.queue_offset, key))

    def _take_ack(self, ack: AckMessage, entry: ReviveEntry) -> None:
        key = merge_key(ack)
        found = self._open.get(key)
        if found is None:
            until_ms = entry.store_timestamp_ms + ACK_WAITS_MS
            early = self._early.setdefault(key, _Early(entry.queue_offset, until_ms, set()))
            early.offsets.update(ack.offsets)
            return
        if ack.offsets != found.waiting:  # as they are where all are acknowledged together
            acked = set(ack.offsets)
            found.waiting = [offset for offset in found.waiting if offset not in acked]
            if found.waiting:
                return
        self.close(found)

    def next_due(self, now_ms: int) -> Open | None:
        """A check point that is due, the longest overdue first; None if there is none. The caller closes it, writes an
        acknowledgement that closes it when it is read, puts it back or postpones it."""
        while self._due and self._due[0][0] <= now_ms:
            _, revive_offset, key = heapq.heappop(self._due)
            found = self._open.get(key)
            if found is not None and found.revive_offset == revive_offset:
                return found
        return None

    def put_back(self, due: Open) -> None:
        """It is the next to be tried."""
        heapq.heappush(self._due, (due.due_ms, due.revive_offset, merge_key(due.check_point)))

    def postpone(self, due: Open, until_ms: int) -> None:
        """It is tried again then."""
        due.due_ms = until_ms
        self.put_back(due)

    def close(self, done: Open) -> None:
        """All its messages are acknowledged or come again."""
        del self._open[merge_key(done.check_point)]
        if len(self._due) > 2 * len(self._open) + _STALE_MAX:
            self._due = [(each.due_ms, each.revive_offset, key) for key, each in self._open.items()]
            heapq.heapify(self._due)

    def forget_early(self, now_ms: int) -> None:
        """Acknowledgements that have waited long enough."""
        for key in [key for key, early in self._early.items() if early.until_ms <= now_ms]:
            del self._early[key]
