"""Pulls that wait for messages (``PullRequestHoldService``, 5.5.0): a table by queue, no tasks. They are answered in
the round that makes a message visible, and otherwise by a sweep.

A held pull is run again, once, without waiting a second time: when a message that it may want arrives, when its time is
up, or when the slow scan sees that the queue has gone on with messages it did not want - so that its offset moves on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from rmqserver.answer import Request
from rmqserver.connection import Connection
from rmqserver.store.results import Arrival

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore

HELD_MAX = 100_000
"""More pulls than this are answered at once: 10,000 connections with ten queues each."""

EXPRESSION_SHARE_CHARS = 256
"""For so much of its expression a held pull counts once more: a frame has room for one of 16 MiB."""

DEADLINE_SWEEP_S = 1.0
SCAN_EVERY_SWEEPS = 5
"""Apache scans every 5 s, for both; a pull whose time is up should not wait so long for it."""


@dataclass(slots=True)
class HeldPull:
    """``accepts_tag`` None: any message will do. ``deadline_ms`` is on the broker's clock."""

    request: Request[Any]
    connection: Connection
    queue_offset: int
    deadline_ms: int
    accepts_tag: Callable[[int], bool] | None
    weight: int = 1
    """Its part of HELD_MAX."""


class Holds:
    """``run_again`` answers a held pull for good."""

    def __init__(self, store: MessageStore, clock_ms: Callable[[], int]):
        self.run_again: Callable[[HeldPull], None] = lambda pull: None
        self._store = store
        self._clock_ms = clock_ms
        self._held: dict[tuple[str, int], list[HeldPull]] = {}
        self._count = 0
        self._weight = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, topic: str, queue_id: int, pull: HeldPull) -> bool:
        """False if there are too many already."""
        if self._weight + pull.weight > HELD_MAX:
            return False
        self._held.setdefault((topic, queue_id), []).append(pull)
        self._count += 1
        self._weight += pull.weight
        return True

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Messages became visible: called by the store."""
        if not self._count:
            return
        for arrival in arrivals:
            key = (arrival.queue.topic, arrival.queue.queue_id)
            if key in self._held:
                self._wake(key, arrival)

    def _wake(self, key: tuple[str, int], arrival: Arrival) -> None:
        codes: list[int] | None = None
        kept: list[HeldPull] = []
        woken: list[HeldPull] = []
        for pull in self._held[key]:
            if pull.accepts_tag is not None:
                if codes is None:
                    codes = arrival.queue.tag_codes(arrival.first_queue_offset, arrival.message_count)
                if not any(map(pull.accepts_tag, codes)):
                    kept.append(pull)
                    continue
            woken.append(pull)
        self._replace(key, kept, woken)

    def sweep(self, *, scan: bool) -> None:
        """Runs again what is due; with ``scan`` also what the queue has passed by. Forgets closed connections."""
        now_ms = self._clock_ms()
        for key in list(self._held):
            max_offset = self._store.max_offset(*key) if scan else 0
            kept: list[HeldPull] = []
            woken: list[HeldPull] = []
            for pull in self._held[key]:
                if pull.connection.closed:
                    continue
                is_due = pull.deadline_ms <= now_ms or (scan and max_offset > pull.queue_offset)
                (woken if is_due else kept).append(pull)
            if len(kept) < len(self._held[key]):
                self._replace(key, kept, woken)

    def _replace(self, key: tuple[str, int], kept: list[HeldPull], woken: list[HeldPull]) -> None:
        self._count -= len(self._held[key]) - len(kept)
        self._weight -= sum(pull.weight for pull in self._held[key]) - sum(pull.weight for pull in kept)
        if kept:
            self._held[key] = kept
        else:
            del self._held[key]
        for pull in woken:
            if not pull.connection.closed:
                self.run_again(pull)

    async def run(self) -> None:
        """Sweeps until cancelled."""
        sweeps = 0
        while True:
            await trio.sleep(DEADLINE_SWEEP_S)
            sweeps += 1
            self.sweep(scan=sweeps % SCAN_EVERY_SWEEPS == 0)
