"""The messages of several queues in the order they were stored, holding at most one pull of each queue in memory.

All messages are put in order before unwanted ones are dropped. Otherwise a queue without wanted messages would have to
be read to its end before the first message of another could be shown.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_source import QueueReader, following, newest
from rmqadmin.core.messages.queue_reading import QueuePlace, QueuePull

_Order = tuple[int, str, int, int]
"""Store time, broker, log offset, number of the queue."""


def in_time_order(reader: QueueReader, places: Sequence[QueuePlace]) -> Iterator[list[FoundMessage]]:
    """The wanted messages, until there are enough. The order within a queue is kept, even if the broker's clock was set
    back."""
    queues = [_Queue(reader, where, number) for number, where in enumerate(places)]
    targets.ask_each(_Queue.pull, queues)
    heads = [order for queue in queues if (order := queue.head()) is not None]
    heapq.heapify(heads)
    kept: list[FoundMessage] = []
    while heads and not reader.sieve.is_full:
        queue = queues[heads[0][-1]]
        queue.look_at_first(kept)
        if not queue.waiting and not reader.sieve.is_full:
            if kept:  # shown before waiting for the next answer
                yield kept
                kept = []
            queue.pull()
        order = queue.head()
        if order is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, order)
    if kept:
        yield kept


class _Queue:
    """One queue: its pulled messages that were not examined yet, and the offset examined so far."""

    def __init__(self, reader: QueueReader, where: QueuePlace, number: int):
        self.waiting: deque[FoundMessage] = deque()
        self._reader = reader
        self._number = number
        self._at = where.begin_offset
        self._pulls = reader.pulls(where)
        self._pulled: QueuePull | None = None

    def pull(self) -> None:
        """Pulls until there is a message to examine, or the place ends."""
        while not self.waiting:
            if self._pulled is not None:
                self._at = self._reader.pass_to(self._pulled, self._at)
            self._pulled = next(self._pulls, None)
            if self._pulled is None:
                return
            self.waiting.extend(self._pulled.messages)

    def head(self) -> _Order | None:
        if not self.waiting:
            return None
        message = self.waiting[0]
        return message.stored.store_timestamp_ms, message.broker_name, message.stored.log_offset, self._number

    def look_at_first(self, kept: list[FoundMessage]) -> None:
        self._at = self._reader.look_at(self.waiting.popleft(), self._at, kept)


def covered_text(*, is_part: bool) -> str:
    """What a reading without a limit has read in the end: all queues, or the ``is_part`` that was asked for."""
    return "the end of that range was reached" if is_part else "the end was reached"


class SiftExtent(msgspec.Struct, frozen=True):
    """How much to read: ``tail`` the newest messages, ``follow`` those that arrive afterwards, ``limit`` the most in
    all."""

    limit: int | None = None
    tail: int | None = None
    follow: bool = False


def sifted(reader: QueueReader, places: Sequence[QueuePlace], extent: SiftExtent) -> Iterator[Sequence[FoundMessage]]:
    """The wanted messages, batch by batch as they arrive. Afterwards, the reader's sieve knows why it ended."""
    sieve = reader.sieve
    if extent.tail is None:
        sieve.limit = extent.limit
        yield from in_time_order(reader, places)
    else:
        sieve.limit = None  # a limit would end the search at the oldest of the newest
        found = newest(reader, places, extent.tail)[: extent.limit]
        sieve.matched_count = len(found)
        sieve.limit = extent.limit
        if len(found) == extent.tail:
            sieve.covered = f"--tail {extent.tail} was reached"
        yield found
    if extent.follow:
        yield from following(reader, places)  # empty batches, too: the writer then notices a reader that has gone
    if reader.answers is not None and reader.answers.errors:
        sieve.covered += ", on the brokers that answered"
    sieve.end()
