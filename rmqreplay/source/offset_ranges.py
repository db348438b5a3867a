"""Runs of queue offsets: those that a plan covers, a wave takes, or a ledger lists as delivered. They are runs and not
single offsets so that a redrive of ten million dead letters fits on one line of a ledger."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError


class OffsetRange(msgspec.Struct, frozen=True, order=True):
    """Queue offsets ``start`` (included) to ``end`` (not included) of one source queue."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start


def queue_text(queue: MessageQueue) -> str:
    """``topic/broker/queueId``: the key of a queue in plans and ledgers. Topic names contain no slash."""
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"


def parse_queue_text(text: str) -> MessageQueue:
    """The queue of a ``queue_text``. StorageError if the text has another form."""
    topic, _, rest = text.partition("/")
    broker_name, _, queue_id = rest.rpartition("/")
    if not topic or not broker_name or not queue_id.isdecimal():
        raise StorageError(f"{text!r} is not of the form topic/broker/queueId")
    return MessageQueue(topic, broker_name, int(queue_id))


def wave_slice(ranges: Iterable[OffsetRange], wave: int, wave_count: int) -> list[OffsetRange]:
    """The ranges of wave ``wave`` (from 0) of ``wave_count``: a proportional part of every range, so that all queues
    advance together. Every offset is in exactly one wave."""
    assert 0 <= wave < wave_count
    taken = []
    for each in ranges:
        start = each.start + each.count * wave // wave_count
        end = each.start + each.count * (wave + 1) // wave_count
        if start < end:
            taken.append(OffsetRange(each.queue, start, end))
    return taken


def split_ranges(ranges: Iterable[OffsetRange], ends: Mapping[str, int]) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """The offsets before ``ends`` (by ``queue_text``), and the rest. Every offset is in exactly one of the two."""
    before, rest = [], []
    for each in ranges:
        cut = min(max(each.start, ends.get(queue_text(each.queue), each.start)), each.end)
        if each.start < cut:
            before.append(OffsetRange(each.queue, each.start, cut))
        if cut < each.end:
            rest.append(OffsetRange(each.queue, cut, each.end))
    return before, rest


def hulls(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """One range per queue, from its first offset to its last; sorted."""
    found: dict[MessageQueue, OffsetRange] = {}
    for each in ranges:
        other = found.get(each.queue, each)
        found[each.queue] = OffsetRange(each.queue, min(each.start, other.start), max(each.end, other.end))
    return [found[queue] for queue in sorted(found)]


class OffsetSet:
    """Offsets per queue, kept as sorted runs that neither touch nor overlap."""

    def __init__(self, ranges: Iterable[OffsetRange] = ()):
        self._runs: dict[MessageQueue, list[tuple[int, int]]] = {}
        by_queue: dict[MessageQueue, list[tuple[int, int]]] = {}
        for each in ranges:
            by_queue.setdefault(each.queue, []).append((each.start, each.end))
        for queue, runs in by_queue.items():
            self._merge(queue, runs)

    @classmethod
    def of_offsets(cls, offsets: Iterable[tuple[MessageQueue, int]]) -> OffsetSet:
        by_queue: dict[MessageQueue, list[int]] = {}
        for queue, offset in offsets:
            by_queue.setdefault(queue, []).append(offset)
        found = cls()
        for queue, each in by_queue.items():
            found._merge(queue, _runs_of(sorted(each)))
        return found

    def update(self, other: OffsetSet) -> None:
        for queue, runs in other._runs.items():
            self._merge(queue, runs)

    def __contains__(self, place: tuple[MessageQueue, int]) -> bool:
        queue, offset = place
        runs = self._runs.get(queue)
        if not runs:
            return False
        at = bisect_right(runs, (offset, 1 << 63)) - 1
        return at >= 0 and offset < runs[at][1]

    def __iter__(self) -> Iterator[OffsetRange]:
        for queue in sorted(self._runs):
            for start, end in self._runs[queue]:
                yield OffsetRange(queue, start, end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetSet) and self._runs == other._runs

    __hash__ = None  # type: ignore[assignment] # it changes

    @property
    def count(self) -> int:
        return sum(end - start for runs in self._runs.values() for start, end in runs)

    def overlap(self, ranges: Iterable[OffsetRange]) -> OffsetSet:
        """The offsets that are in this set and in ``ranges``."""
        return OffsetSet(
            OffsetRange(each.queue, max(each.start, start), min(each.end, end))
            for each in ranges
            for start, end in self._runs.get(each.queue, ())
            if max(each.start, start) < min(each.end, end)
        )

    def to_json(self) -> dict[str, list[tuple[int, int]]]:
        return {queue_text(queue): list(self._runs[queue]) for queue in sorted(self._runs)}

    @classmethod
    def from_json(cls, runs: dict[str, list[tuple[int, int]]]) -> OffsetSet:
        return cls(
            OffsetRange(parse_queue_text(text), start, end) for text, pairs in runs.items() for start, end in pairs
        )

    def _merge(self, queue: MessageQueue, more: list[tuple[int, int]]) -> None:
        merged: list[tuple[int, int]] = []
        for start, end in sorted([*self._runs.get(queue, ()), *more]):
            if start >= end:
                continue
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        if merged:
            self._runs[queue] = merged


def _runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(offset + 1, runs[-1][1]))
        else:
            runs.append((offset, offset + 1))
    return runs
