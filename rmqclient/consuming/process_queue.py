"""What a consumer has of one queue: the messages that are pulled and not settled yet, and how far the group may be said
to be (``ProcessQueue``, 5.5.0). No I/O and no clock.

The offset rule: everything before the committed offset is settled. One slow message holds it back, and after a crash
everything from there on comes again: at least once, never not at all.
"""

from __future__ import annotations

from collections import OrderedDict

from rmqproto.message.record import StoredMessage


class ProcessQueue:
    """All offsets are queue offsets. After a rebalance or a reset another takes its place, and ``is_dropped`` tells
    those who still hold messages of this one that nobody waits for them."""

    def __init__(self, start_offset: int):
        self.is_dropped = False
        self.size_bytes = 0
        self._scanned_to = start_offset
        self._committed_offset = start_offset
        self._unsettled: OrderedDict[int, int] = OrderedDict()  # size by offset; pulls bring them in order

    @property
    def committed_offset(self) -> int:
        """The next message the group needs. Never goes back."""
        return self._committed_offset

    @property
    def scanned_to(self) -> int:
        """Where the next pull begins."""
        return self._scanned_to

    @property
    def count(self) -> int:
        return len(self._unsettled)

    @property
    def span(self) -> int:
        """From the oldest unsettled message to the newest."""
        return self.newest_offset - self.oldest_offset if self._unsettled else 0

    @property
    def oldest_offset(self) -> int:
        """Of the unsettled messages; 0 if there are none."""
        return next(iter(self._unsettled), 0)

    @property
    def newest_offset(self) -> int:
        return next(reversed(self._unsettled), 0)

    def put(self, messages: list[StoredMessage], next_begin_offset: int) -> None:
        """Takes what a pull brought, without those that nobody wants: they count as settled. ``next_begin_offset`` is
        the pull's. What was pulled before and is unsettled stays."""
        for message in messages:
            self._unsettled[message.queue_offset] = message.size_bytes
            self.size_bytes += message.size_bytes
        self._scanned_to = next_begin_offset
        self._advance()

    def settle(self, message: StoredMessage) -> None:
        """This message was consumed, or sent back. Settling twice is once."""
        size_bytes = self._unsettled.pop(message.queue_offset, None)
        if size_bytes is not None:
            self.size_bytes -= size_bytes
            self._advance()

    def _advance(self) -> None:
        reached = next(iter(self._unsettled), self._scanned_to)
        self._committed_offset = max(self._committed_offset, reached)
