"""The offset of a stream, as it stands in a checkpoint.

    {"source": "rocketmq", "version": 1, "queues": {"topic/broker/queueId": next offset}, "from": {the same: offset},
     "first": {the same: [offset, ms]}}

``from`` is where the batch that ends here began in queues of which the offset before says nothing: all queues in the
first batch, and queues that came in later. Spark keeps no start of a first batch: if it is repeated after a crash, it
would begin where "latest" is by then, and what came between would be lost.

``first`` is the first message that each queue had, and when it was stored. A younger one in its place, or before it,
tells that the topic was made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError, UsageError
from rmqreplay.source.offset_ranges import OffsetRange, parse_queue_text, queue_text

VERSION = 1
SOURCE = "rocketmq"

Places = Mapping[MessageQueue, int]
Marks = Mapping[MessageQueue, tuple[int, int]]
"""A message of each queue: its offset, and when it was stored, in ms since the epoch."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each queue. ``is_initial``: no batch has been read; such an offset is in no checkpoint."""

    queues: Places
    begun: Places = field(default_factory=dict)
    is_initial: bool = False
    first: Marks = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"source": SOURCE, "version": VERSION, "queues": _texts(self.queues)}
        if self.begun:
            found["from"] = _texts(self.begun)
        if self.first:
            found["first"] = {queue_text(queue): list(self.first[queue]) for queue in sorted(self.first)}
        if self.is_initial:
            found["initial"] = True
        return found


def parse_offset(given: Any) -> StreamOffset:
    """The offset of a checkpoint. UsageError for that of another source or of a later version, and for a damaged
    one."""
    if not isinstance(given, dict) or given.get("source") != SOURCE:
        raise UsageError(
            f"the checkpoint's offset is none of the rocketmq source: {str(given)[:200]}",
            hint="use a checkpointLocation of its own for each query",
        )
    version = given.get("version")
    if version != VERSION:
        raise UsageError(
            f"the checkpoint's offset has version {version}; this rmqadmin knows {VERSION}",
            hint="read it with the rmqadmin that wrote it, or a later one",
        )
    try:
        return StreamOffset(
            _places(given["queues"]), _places(given.get("from", {})), given.get("initial") is True,
            _marks(given.get("first", {})),
        )  # fmt: skip
    except (KeyError, AttributeError, TypeError, ValueError, StorageError) as error:
        raise UsageError(f"the checkpoint's offset is damaged: {error!r} in {str(given)[:200]}") from None


def is_younger(mark: tuple[int, int] | None, first: int, stored_ms: int) -> bool:
    """Whether a queue's first message, although it is not behind the marked one, was stored later: the queue was made
    anew."""
    return mark is not None and first <= mark[0] and stored_ms > mark[1]


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
    """What the batch from one offset to the other reads. Queues in which nothing is new are left out."""
    found = []
    for queue in sorted(end.queues):
        begin = end.begun.get(queue, start.queues.get(queue))
        if begin is None:
            raise UsageError(f"the checkpoint does not tell where {queue_text(queue)} begins: it is damaged")
        if begin < end.queues[queue]:
            found.append(OffsetRange(queue, begin, end.queues[queue]))
    return found


def _texts(places: Places) -> dict[str, int]:
    return {queue_text(queue): places[queue] for queue in sorted(places)}


def _places(texts: dict[str, int]) -> dict[MessageQueue, int]:
    for text, offset in texts.items():
        if type(offset) is not int or offset < 0:
            raise TypeError(f"{text} is at {offset!r}")
    return {parse_queue_text(text): offset for text, offset in texts.items()}


def _marks(texts: dict[str, list[int]]) -> dict[MessageQueue, tuple[int, int]]:
    return {parse_queue_text(text): (int(offset), int(stored_ms)) for text, (offset, stored_ms) in texts.items()}
