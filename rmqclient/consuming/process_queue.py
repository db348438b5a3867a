"""One queue's messages that are pulled and not settled yet, and the group's committed offset (``ProcessQueue``, 5.5.0).
No I/O and no clock.

The offset rule: everything before the committed offset is settled. One slow message holds it back, and after a crash
everything from it on comes again. So every message is consumed at least once.
"""

from __future__ import annotations

from collections import OrderedDict

from rmqproto.message.record import StoredMessage


class ProcessQueue:
    """All offsets are queue offsets. After a rebalance or a reset another one replaces it. ``is_dropped`` then tells
    holders of its messages that nobody waits for them."""

    def __init__(self, start_offset: int):
        self.is_dropped = False
        self.size_bytes = 0
        self.scanned_to = start_offset
        """The offset where the next pull begins."""
        self.committed_offset = start_offset
        """The offset of the next message that the group needs. It never goes back."""
        self._unsettled: OrderedDict[int, int] = OrderedDict()  # size by offset; pulls bring them in order

    @property
    def count(self) -> int:
        return len(self._unsettled)

    @property
    def span(self) -> int:
        """The distance from the oldest unsettled message to the newest."""
        return self.newest_offset - self.oldest_offset if self._unsettled else 0

    @property
    def oldest_offset(self) -> int:
        """The offset of the oldest unsettled message; 0 if there is none."""
        return next(iter(self._unsettled), 0)

    @property
    def newest_offset(self) -> int:
        return next(reversed(self._unsettled), 0)

    def put(self, messages: list[StoredMessage], next_begin_offset: int) -> None:
        """Adds the messages of a pull, without those whose tags do not match: they count as settled.
        ``next_begin_offset`` is the pull's. Earlier unsettled messages stay."""
        for message in messages:
            self._unsettled[message.queue_offset] = message.size_bytes
            self.size_bytes += message.size_bytes
        self.scanned_to = next_begin_offset
        self._advance()

    def settle(self, message: StoredMessage) -> None:
        """The message was consumed or sent back. Settling it twice counts once."""
        size_bytes = self._unsettled.pop(message.queue_offset, None)
        if size_bytes is not None:
            self.size_bytes -= size_bytes
            self._advance()

    def _advance(self) -> None:
        reached = next(iter(self._unsettled), self.scanned_to)
        self.committed_offset = max(self.committed_offset, reached)
