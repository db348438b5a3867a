"""Messages of a topic as ``msg cat`` shows them: filtered, and either in order of time, the newest, or new ones as they
arrive. Also counts how many messages were examined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_source import QueueReader, following, newest
from rmqadmin.core.messages.queue_reading import QueuePlace
from rmqadmin.core.messages.time_order import in_time_order


def covered_text(*, is_part: bool, lacks_brokers: bool) -> str:
    """What a reading without a limit has read in the end: all queues, or the ``is_part`` that was asked for."""
    end = "the end of that range was reached" if is_part else "the end was reached"
    return f"{end}, on the brokers that answered" if lacks_brokers else end


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
    sieve.end()
