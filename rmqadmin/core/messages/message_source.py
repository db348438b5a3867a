"""Messages of queues, read batch by batch: queue after queue, the newest, or new ones as they arrive.

Each batch is shown before the next is read, so the first line does not wait for the last.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import unpacked
from rmqadmin.core.messages.queue_reading import QueuePlace, QueuePull, pulls
from rmqadmin.core.messages.sieve import Sieve
from rmqadmin.core.results import Notice
from rmqclient.pull import PullStatus
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

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

    def batches(self, where: QueuePlace) -> Iterator[tuple[list[FoundMessage], int]]:
        """Wanted messages with decompressed bodies, each batch with the queue offset after the last message
        examined."""
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
            for pulled in pulls(self.admin, rest, expression=self.expression, is_exact=True):
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
        """Adds the message to ``kept`` if it is wanted. ``at`` is the queue offset so far; returns the one after the
        message."""
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
        found += _newest_of_one(reader, where, count)
        found.sort(key=lambda one: (one.stored.store_timestamp_ms, one.broker_name, one.stored.log_offset))
        del found[:-count]
    return found


def _newest_of_one(reader: QueueReader, where: QueuePlace, count: int) -> list[FoundMessage]:
    """Looks back further and further until there are enough messages or the place begins."""
    found: list[FoundMessage] = []
    end, span = where.end_offset, count
    while end > where.begin_offset and len(found) < count:
        begin = max(where.begin_offset, end - span)
        part = msgspec.structs.replace(where, begin_offset=begin, end_offset=end)
        found = [message for batch, _ in reader.batches(part) for message in batch] + found
        end, span = begin, span * _TAIL_GROWTH
    return found[-count:]


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
