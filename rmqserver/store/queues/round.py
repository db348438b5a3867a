"""What a round of the loop hands to the followers of the log, and what it makes visible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from rmqserver.core import IndexItem
    from rmqserver.store.disk.checkpoint import Checkpoint
    from rmqserver.store.queues.consume_queue import ConsumeQueue

Mark = tuple["ConsumeQueue", int]
"""A queue and the offset up to which all its messages were written."""


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A run of messages of one queue that just became visible. ``queue.tag_codes(first_queue_offset, message_count)``
    gives their tags."""

    queue: ConsumeQueue
    first_queue_offset: int
    message_count: int


class Round(msgspec.Struct, gc=False):
    """What one round of the loop has written to the log, on its way from commit through the flush to the followers. The
    records lie before ``end_offset``; the last one starts at ``last_record_offset``."""

    end_offset: int
    last_record_offset: int
    marks: list[Mark]
    index_entries: bytes | list[IndexItem]
    """``core.packed`` makes entries of them."""
    arrivals: list[Arrival] = []
    """What readers now see of the round; the consume queues fill it in."""


Sync = Callable[["Checkpoint", Callable[[], None]], None]
"""Runs in the flush thread: brings the follower's writes to the device, and notes in the checkpoint what only this
follower knows. Its second argument writes the checkpoint at once, before a step that would make the checkpoint on the
disk untrue."""
