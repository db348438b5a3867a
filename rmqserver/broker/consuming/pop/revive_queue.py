"""The present state of one queue of the revive log: which check points are open, which of their messages are
acknowledged, which one is due, and up to where the queue is done. Kept in memory, and read again from the log after a
start."""

from __future__ import annotations

import heapq

import msgspec

from rmqproto.bodies.popping import AckMessage, CheckPoint
from rmqproto.errors import ProtocolError

REVIVE_MARGIN_MS = 2000
"""How much later than its time a check point is due, since acknowledgements may be on their way (Apache:
ackTimeInterval and a second)."""

ACK_WAITS_MS = 180_000
"""How long an acknowledgement waits for its check point (reviveAckWaitMs). Only a check point that Apache's timers
still hold comes after its acknowledgements. All other acknowledgements without a check point came too late."""

MESSAGES_MAX = 127
"""The most messages of one check point: Apache keeps their number in a byte."""

_STALE_MAX = 1000
"""The heap may also hold closed check points. It is made anew when it exceeds twice the open ones by more than this."""


MergeKey = tuple[str, str, int, int, int]
"""What an acknowledgement shares with its check point: topic, group, queue id, start offset, pop time."""


def merge_key(entry: CheckPoint | AckMessage) -> MergeKey:
    return entry.topic, entry.consumer_group, entry.queue_id, entry.start_offset, entry.pop_time


class Open(msgspec.Struct):
    """A check point that is not done. ``waiting``: the queue offsets of its messages that are not acknowledged and have
    not come again. ``store_host`` is that of its entry."""

    key: MergeKey
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
    """The state of one revive queue. ``next_offset`` is the offset to be read next."""

    def __init__(self, next_offset: int, revived_ms: int = 0):
        """Check points that were due before ``revived_ms`` have come again, or are acknowledged."""
        self.next_offset = next_offset
        self._revived_ms = revived_ms
        self._open: dict[MergeKey, Open] = {}  # in the order of the queue
        self._early: dict[MergeKey, _Early] = {}  # in the order of the queue, too
        self._due: list[tuple[int, int, MergeKey]] = []

    @property
    def open_count(self) -> int:
        """Open check points."""
        return len(self._open)

    @property
    def done_offset(self) -> int:
        """The last offset that a start need not read again, as Apache commits it; -1: the queue must be read whole."""
        first_open, first_early = next(iter(self._open.values()), None), next(iter(self._early.values()), None)
        needed = [each.revive_offset for each in (first_open, first_early) if each is not None]
        return min([self.next_offset, *needed]) - 1

    def is_first(self, open_one: Open) -> bool:
        """Whether a start can skip it once it is closed, because nothing before it is still needed."""
        return self.done_offset == open_one.revive_offset - 1

    def is_open(self, due: Open) -> bool:
        """False if the check point was acknowledged or replaced since it became due."""
        return self._open.get(due.key) is due

    def take(
        self, body: CheckPoint | AckMessage, queue_offset: int, store_timestamp_ms: int, store_host: bytes
    ) -> None:
        """Takes the next entry of the queue. Raises ProtocolError for an impossible check point, which is then
        skipped."""
        self.next_offset = queue_offset + 1
        if isinstance(body, CheckPoint):
            self._take_check_point(body, queue_offset, store_timestamp_ms, store_host)
        else:
            self._take_ack(body, queue_offset, store_timestamp_ms)

    def _take_check_point(
        self, check_point: CheckPoint, revive_offset: int, store_timestamp_ms: int, store_host: bytes
    ) -> None:
        if not 0 <= check_point.message_count <= MESSAGES_MAX:
            raise ProtocolError(f"a check point of {check_point.message_count} messages")
        key = merge_key(check_point)
        waiting = check_point.offsets
        if check_point.bit_map:
            waiting = [offset for number, offset in enumerate(waiting) if not check_point.bit_map >> number & 1]
        if self._early and (early := self._early.pop(key, None)) is not None:
            waiting = [offset for offset in waiting if offset not in early.offsets]
        self._open.pop(key, None)  # else the newer one would take the older one's place in the order
        due_ms = max(check_point.pop_time + check_point.invisible_time, store_timestamp_ms) + REVIVE_MARGIN_MS
        if waiting and due_ms >= self._revived_ms:
            self._open[key] = Open(key, check_point, revive_offset, due_ms, waiting, store_host)
            heapq.heappush(self._due, (due_ms, revive_offset, key))

    def _take_ack(self, ack: AckMessage, revive_offset: int, store_timestamp_ms: int) -> None:
        key = merge_key(ack)
        found = self._open.get(key)
        if found is None:
            until_ms = store_timestamp_ms + ACK_WAITS_MS
            early = self._early.setdefault(key, _Early(revive_offset, until_ms, set()))
            early.offsets.update(ack.offsets)
            return
        acked = ack.offsets
        if acked == found.waiting:  # usually all are acknowledged together
            found.waiting = []
        else:
            done = set(acked)
            found.waiting = [offset for offset in found.waiting if offset not in done]
        if not found.waiting:
            self.close(found)

    def next_due(self, now_ms: int) -> Open | None:
        """The check point that is overdue the longest; None if none is due. The caller closes it, writes an
        acknowledgement that closes it when it is read, puts it back, or postpones it."""
        while self._due and self._due[0][0] <= now_ms:
            _, revive_offset, key = heapq.heappop(self._due)
            found = self._open.get(key)
            if found is not None and found.revive_offset == revive_offset:
                return found
        return None

    def put_back(self, due: Open) -> None:
        """Makes the check point due again, at its ``due_ms``."""
        heapq.heappush(self._due, (due.due_ms, due.revive_offset, due.key))

    def postpone(self, due: Open, until_ms: int) -> None:
        """Makes the check point due at that time."""
        due.due_ms = until_ms
        self.put_back(due)

    def close(self, done: Open) -> None:
        """Closes a check point whose messages are all acknowledged or have come again."""
        del self._open[done.key]
        if len(self._due) > 2 * len(self._open) + _STALE_MAX:
            self._due = [(each.due_ms, each.revive_offset, key) for key, each in self._open.items()]
            heapq.heapify(self._due)

    def forget_early(self, now_ms: int) -> None:
        """Forgets acknowledgements that have waited long enough."""
        for key in [key for key, early in self._early.items() if early.until_ms <= now_ms]:
            del self._early[key]
