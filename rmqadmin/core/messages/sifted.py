"""Messages of a topic as ``msg cat`` gives them: chosen by conditions, in order of time, the newest, or what comes; and
how many were looked at for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_source import QueueReader, following, newest
from rmqadmin.core.messages.queue_reading import QueuePlace
from rmqadmin.core.messages.time_order import in_time_order


class SiftExtent(msgspec.Struct, frozen=True):
    """How much is read: ``tail`` the newest so many, ``follow`` what comes afterwards, ``limit`` so many together."""

    limit: int | None = None
    tail: int | None = None
    follow: bool = False


def sifted(reader: QueueReader, places: Sequence[QueuePlace], extent: SiftExtent) -> Iterator[Sequence[FoundMessage]]:
    """The wanted messages, batch by batch as they come. The reader's sieve knows afterwards why it ended."""
    sieve = reader.sieve
    if extent.tail is None:
        sieve.limit = extent.limit
        yield from in_time_order(reader, places)
    else:
        sieve.limit = None  # which would end the search at the oldest of the newest
        found = newest(reader, places, extent.tail)[: extent.limit]
        sieve.matched_count = len(found)
        sieve.limit = extent.limit
        yield found
    if extent.follow:
        yield from following(reader, places)  # with empty ones, at which whoever shows them sees that nobody reads on
    sieve.end()
