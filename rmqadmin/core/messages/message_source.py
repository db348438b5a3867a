"""Messages of queues, read batch by batch: queue after queue, in the order they were stored, the newest, or new ones as
they arrive. Each batch is shown before the next is read, so the first line does not wait for the last.

Of messages in the order they were stored, at most one pull of each queue is held in memory, and all are put in order
before unwanted ones are dropped. Otherwise a queue without wanted messages would have to be read to its end before the
first message of another could be shown.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Annotated

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import unpacked
from rmqadmin.core.messages.queue_reading import QueuePlace, QueuePull, pulls
from rmqadmin.core.results import Notice, Row, doc
from rmqadmin.core.servers.broker_answers import Answers, ask_each
from rmqclient.pull import PullStatus
from rmqproto.errors import ProtocolError
from rmqproto.filters.message_conditions import TakesMessage
from rmqproto.filters.message_filter import AcceptsProperties
from rmqproto.wording import counted


class SieveRow(Row, frozen=True):
    scanned: Annotated[int, doc("queue offsets that were looked at")]
    matched: Annotated[int, doc("messages that were wanted")]
    unreadable: Annotated[int, doc("bodies that a condition was about, and that could not be unpacked")]
    stopped_because: Annotated[str, doc("what ended it")]


class Sieve:
    """``takes`` is None if every message is wanted. ``limit``: the most messages; it may be set on the way.
    ``covered`` says what was read if nothing else ended it."""

    def __init__(self, takes: TakesMessage | None = None, limit: int | None = None):
        self.scanned_count = self.matched_count = self.unreadable_count = 0
        self.stopped: str | None = None
        self.limit = limit
        self.covered = "the end was reached"
        self._takes = takes
        self._lock = Lock()

    @classmethod
    def by_properties(cls, accepts: AcceptsProperties | None) -> Sieve:
        return cls() if accepts is None else cls(lambda _, properties: accepts(properties))

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.matched_count >= self.limit

    def add_scanned(self, count: int) -> None:
        """Counts examined messages. Queues are pulled at the same time: any thread may call it."""
        with self._lock:
            self.scanned_count += count

    def passes(self, message: FoundMessage) -> bool:
        """Whether it is wanted. If a condition needs a body that cannot be decompressed, it is not."""
        try:
            if self._takes is not None and not self._takes(message.stored, message.properties):
                return False
        except ProtocolError:
            self.unreadable_count += 1
            return False
        self.matched_count += 1
        return True

    def end(self) -> None:
        """Records that what was asked for was read, or that there are enough."""
        self.stopped = f"--limit {self.limit} was reached" if self.is_full else self.covered

    def end_by(self, error: BaseException) -> None:
        """Records that an error or interruption ended it."""
        if isinstance(error, KeyboardInterrupt):
            self.stopped = "it was interrupted"
        elif not isinstance(error, BrokenPipeError):
            self.stopped = "an error ended it"

    def row(self) -> SieveRow:
        return SieveRow(
            scanned=self.scanned_count,
            matched=self.matched_count,
            unreadable=self.unreadable_count,
            stopped_because=self.stopped or "nobody reads on",
        )

    def __str__(self) -> str:
        row = self.row()
        unreadable = f", {row.unreadable:,} bodies could not be unpacked" if row.unreadable else ""
        return f"scanned {row.scanned:,}, matched {row.matched:,}{unreadable}, stopped because {row.stopped_because}"


FOLLOW_PAUSE_S = 0.3
"""The pause after all queues had nothing new."""

_TAIL_GROWTH = 4
"""If a filter matches few messages, each further step looks back this many times as far."""

_NO_END = 1 << 62


class QueueReader(msgspec.Struct, frozen=True):
    """Reads the wanted messages of a queue: those with the tags of ``expression`` that pass the sieve."""

    admin: AdminClient
    expression: str
    sieve: Sieve
    notice: Notice
    answers: Answers | None = None
    """As for ``pulls``."""

    def batches(self, where: QueuePlace) -> Iterator[tuple[list[FoundMessage], int]]:
        """Batches of wanted messages, decompressed, each with the queue offset after the last one examined."""
        at = where.begin_offset
        for pulled in self.pulls(where):
            kept: list[FoundMessage] = []
            for message in pulled.messages:
                if self.sieve.is_full:
                    yield kept, at
                    return
                at = self.look_at(message, at, kept)
            at = self.pass_to(pulled, at)
            yield kept, at

    def pulls(self, where: QueuePlace) -> Iterator[QueuePull]:
        """All messages of a place, wanted or not. Messages deleted meanwhile are left out."""
        begin = where.begin_offset
        while begin < where.end_offset:
            rest = msgspec.structs.replace(where, begin_offset=begin)
            status = None
            for pulled in pulls(self.admin, rest, expression=self.expression, is_exact=True, answers=self.answers):
                yield pulled
                status, next_offset = pulled.status, pulled.next_offset
            if status is not PullStatus.OFFSET_ILLEGAL or next_offset <= begin:
                return
            begin = next_offset

    def pass_to(self, pulled: QueuePull, at: int) -> int:
        """Moves from queue offset ``at`` to the end of what a pull covered; the new offset."""
        if pulled.status is not PullStatus.OFFSET_ILLEGAL:
            self.sieve.add_scanned(max(0, pulled.next_offset - at))
        return max(at, pulled.next_offset)

    def look_at(self, message: FoundMessage, at: int, kept: list[FoundMessage]) -> int:
        """Adds it to ``kept`` if it is wanted. ``at``: the queue offset so far; returns the one after it."""
        behind = message.stored.queue_offset + 1
        self.sieve.add_scanned(behind - at)
        if self.sieve.passes(message):
            kept.append(unpacked(message, self.notice))
        return behind


class MessageSource:
    """The messages to read, once. They are kept for a second iteration unless the source ``is_endless``."""

    def __init__(self, batches: Iterable[Sequence[FoundMessage]], limit: int | None, *, is_endless: bool = False):
        self.is_endless = is_endless
        self._limit = limit
        self._was_cut = False
        self._coming = self._limited(batches)
        self._kept: list[Sequence[FoundMessage]] = []

    def __iter__(self) -> Iterator[Sequence[FoundMessage]]:
        yield from self._kept
        for batch in self._coming:
            if not self.is_endless:
                self._kept.append(batch)
            yield batch

    def cut_remark(self) -> str | None:
        """What to say once all is read, if the limit ended the reading."""
        if not self._was_cut or self._limit is None:
            return None
        return f"stopped after {counted(self._limit, 'message')}; --limit reads more"

    def _limited(self, batches: Iterable[Sequence[FoundMessage]]) -> Iterator[Sequence[FoundMessage]]:
        left = self._limit
        for batch in batches:
            if left is not None and len(batch) >= left:
                self._was_cut = True
                yield batch[:left]
                return
            if left is not None:
                left -= len(batch)
            yield batch


def queue_after_queue(reader: QueueReader, places: Sequence[QueuePlace]) -> Iterator[list[FoundMessage]]:
    for where in places:
        for batch, _ in reader.batches(where):
            yield batch


def newest(reader: QueueReader, places: Sequence[QueuePlace], count: int) -> list[FoundMessage]:
    """The last ``count`` messages of all places together, in the order they were stored."""
    found: list[FoundMessage] = []
    for where in places:
        of_place: list[FoundMessage] = []
        end, span = where.end_offset, count
        while end > where.begin_offset and len(of_place) < count:  # looks back further and further
            begin = max(where.begin_offset, end - span)
            part = msgspec.structs.replace(where, begin_offset=begin, end_offset=end)
            of_place = [message for batch, _ in reader.batches(part) for message in batch] + of_place
            end, span = begin, span * _TAIL_GROWTH
        found += of_place[-count:]
        found.sort(key=lambda one: (one.stored.store_timestamp_ms, one.broker_name, one.stored.log_offset))
        del found[:-count]
    return found


def following(reader: QueueReader, places: Sequence[QueuePlace]) -> Iterator[list[FoundMessage]]:
    """The messages stored after ``places``, as they arrive, until the user interrupts."""
    ends = [where.end_offset for where in places]
    while not reader.sieve.is_full:
        is_quiet = True
        for at, where in enumerate(places):
            behind = msgspec.structs.replace(where, begin_offset=ends[at], end_offset=_NO_END)
            for batch, ends[at] in reader.batches(behind):
                is_quiet = is_quiet and not batch
                yield batch
        if is_quiet:
            time.sleep(FOLLOW_PAUSE_S)


_Order = tuple[int, str, int, int]
"""Store time, broker, log offset, number of the queue."""


def in_time_order(reader: QueueReader, places: Sequence[QueuePlace]) -> Iterator[list[FoundMessage]]:
    """The wanted messages, until there are enough. A queue keeps its order, even if a clock was set back."""
    queues = [_Queue(reader, where, number) for number, where in enumerate(places)]
    ask_each(_Queue.pull, queues)
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
    """How much to read: the newest (``tail``), then those that arrive (``follow``), ``limit`` in all."""

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
