"""How much of what waits one batch takes, and from which queues. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rmqproto.bodies.base import MessageQueue

SizesFrom = Callable[[MessageQueue, int, int], Sequence[int]]
"""Bytes of the messages of a queue from an offset on: at most so many, at least one, none if they are not known."""


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """Of one batch; 0 is no limit. With fewer messages than ``offsets_min`` a batch waits until ``delay_ms`` after the
    one before."""

    offsets_max: int = 0
    bytes_max: int = 0
    offsets_min: int = 0
    delay_ms: int = 0


def apportion(waiting: Sequence[int], limit: int, turn: int) -> list[int]:
    """How many of the waiting messages of each queue are taken: ``limit`` in all, if so many wait, and of each queue in
    proportion, but at least one. If there are not even so many, the queues take turns: ``turn`` is a number that grows
    by what is taken, as the sum of all offsets does."""
    total = sum(waiting)
    if total <= limit:
        return list(waiting)
    taken = [0] * len(waiting)
    order = _in_turn([at for at, count in enumerate(waiting) if count], turn)
    for at in order[:limit]:
        taken[at] = 1
    left, rest = limit - sum(taken), total - len(order)
    if left > 0:
        for at in order:
            taken[at] += (waiting[at] - 1) * left // rest
    rounded_off = limit - sum(taken)  # less than one for each queue
    for at in order:
        if rounded_off and taken[at] < waiting[at]:
            taken[at] += 1
            rounded_off -= 1
    return taken


def take_bytes(places: Mapping[MessageQueue, tuple[int, int]], limit: int, sizes: SizesFrom, turn: int) -> list[int]:
    """How many messages of each queue (its next offset, and how many wait) have at most ``limit`` bytes together; one,
    if the first is larger. Each time, the next message is of the queue of which the smallest part was taken."""
    queues = list(places)
    taken, known = [0] * len(queues), [list[int]() for _ in queues]
    order = _in_turn([at for at, queue in enumerate(queues) if places[queue][1]], turn)
    heap = [(0.0, rank, at) for rank, at in enumerate(order)]
    while heap:
        _, rank, at = heapq.heappop(heap)
        start, count = places[queues[at]]
        if not known[at]:
            known[at] = list(sizes(queues[at], start + taken[at], count - taken[at]))[::-1]
            if not known[at]:
                continue
        size = known[at].pop()
        if size > limit and any(taken):
            break
        limit -= size
        taken[at] += 1
        if taken[at] < count:
            heapq.heappush(heap, (taken[at] / count, rank, at))
    return taken


def _in_turn(items: list[int], turn: int) -> list[int]:
    first = turn % len(items) if items else 0
    return items[first:] + items[:first]


def batch_ends(
    places: Mapping[MessageQueue, tuple[int, int]], limits: TriggerLimits, sizes: SizesFrom
) -> dict[MessageQueue, int]:
    """Where the next batch ends in each queue, from its next offset and its end."""
    queues = sorted(places)
    turn = sum(places[queue][0] for queue in queues)
    counts = [max(0, places[queue][1] - places[queue][0]) for queue in queues]
    if limits.offsets_max:
        counts = apportion(counts, limits.offsets_max, turn)
    if limits.bytes_max:
        wanted = {queue: (places[queue][0], count) for queue, count in zip(queues, counts, strict=True)}
        counts = take_bytes(wanted, limits.bytes_max, sizes, turn)
    return {queue: places[queue][0] + count for queue, count in zip(queues, counts, strict=True)}
