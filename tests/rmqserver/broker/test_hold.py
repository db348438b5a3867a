"""Held pulls without a network: when they are run again, and what they cost when nobody takes them back."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from rmqserver.broker import hold
from rmqserver.broker.hold import HeldPull, Holds
from rmqserver.store.results import Arrival


@dataclass
class Queue:
    """What ``Holds`` asks of a consume queue."""

    topic: str
    queue_id: int
    codes: list[int]
    asked_for_tags: int = 0

    def tag_codes(self, first: int, count: int) -> list[int]:
        self.asked_for_tags += 1
        return self.codes[first : first + count]


class Bench:
    """``Holds`` on a clock of its own; ``again`` is what was run again."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.max_offset = 0
        self.again: list[HeldPull] = []
        store: Any = SimpleNamespace(max_offset=lambda topic, queue_id: self.max_offset)
        self.holds = Holds(store, lambda: self.now_ms)
        self.holds.run_again = self.again.append

    def hold(self, accepts: set[int] | None = None, wait_ms: int = 100, queue_id: int = 0, offset: int = 0) -> HeldPull:
        connection: Any = SimpleNamespace(closed=False)
        accepts_tag = accepts.__contains__ if accepts is not None else None
        request: Any = None
        pull = HeldPull(request, connection, offset, self.now_ms + wait_ms, accepts_tag)
        assert self.holds.hold("T", queue_id, pull)
        return pull

    def arrive(self, queue: Any, first: int = 0, count: int = 1) -> None:
        self.holds.arrived([Arrival(queue, first, count)])


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_arrival_wakes_its_own_queue_once(bench: Bench) -> None:
    here, there = bench.hold(queue_id=0), bench.hold(queue_id=1)
    bench.arrive(Queue("T", 0, [7]))
    bench.arrive(Queue("T", 0, [7]))
    bench.arrive(Queue("U", 1, [7]))
    assert bench.again == [here]
    bench.arrive(Queue("T", 1, [7]))
    assert bench.again == [here, there]
    assert len(bench.holds) == 0


def test_tags_are_looked_up_once_for_all_and_only_where_someone_asks(bench: Bench) -> None:
    wanted, unwanted, other = bench.hold({3}), bench.hold({4}), bench.hold({2, 4})
    queue = Queue("T", 0, [1, 2, 3])
    bench.arrive(queue, 1, 2)
    assert bench.again == [wanted, other]
    assert (queue.asked_for_tags, len(bench.holds)) == (1, 1)
    assert unwanted not in bench.again
    plain = Queue("T", 2, [1])
    bench.hold(queue_id=2)
    bench.arrive(plain)
    assert plain.asked_for_tags == 0


def test_deadline_is_kept_by_the_sweep(bench: Bench) -> None:
    short, long = bench.hold(wait_ms=10), bench.hold(wait_ms=20)
    bench.now_ms += 9
    bench.holds.sweep(scan=False)
    assert bench.again == []
    bench.now_ms += 1
    bench.holds.sweep(scan=False)
    assert bench.again == [short]
    bench.now_ms += 10
    bench.holds.sweep(scan=False)
    assert bench.again == [short, long]


def test_scan_moves_on_whom_messages_passed_by(bench: Bench) -> None:
    """A consumer of a rare tag would otherwise stay behind by more and more units, to be filtered at once one day."""
    behind, level = bench.hold({4}, offset=2), bench.hold({4}, offset=3)
    bench.max_offset = 3
    bench.holds.sweep(scan=False)
    assert bench.again == []
    bench.holds.sweep(scan=True)
    assert bench.again == [behind]
    assert level not in bench.again


def test_closed_connections_are_forgotten_and_never_run_again(bench: Bench) -> None:
    swept, woken = bench.hold(), bench.hold(queue_id=1)
    swept.connection.closed = woken.connection.closed = True
    bench.holds.sweep(scan=False)
    bench.arrive(Queue("T", 1, [1]))
    assert bench.again == []
    assert (len(bench.holds), bench.holds._held) == (0, {})


def test_too_many_are_not_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "HELD_MAX", 2)
    kept = bench.hold()
    bench.hold()
    refused: Any = HeldPull(kept.request, kept.connection, 0, 0, None)
    assert not bench.holds.hold("T", 0, refused)
    bench.arrive(Queue("T", 0, [1]))
    assert bench.holds.hold("T", 0, refused)


def test_pull_that_is_held_again_while_it_is_run_again_is_not_lost(bench: Bench) -> None:
    """A woken pull may be answered, and the client's next one held, before the rest of the list was looked at."""
    first, second = bench.hold(), bench.hold()
    held_anew: list[HeldPull] = []

    def run(pull: HeldPull) -> None:
        bench.again.append(pull)
        if pull is first:
            held_anew.append(bench.hold())

    bench.holds.run_again = run
    bench.arrive(Queue("T", 0, [1]))
    assert bench.again == [first, second]
    assert len(bench.holds) == 1
    bench.arrive(Queue("T", 0, [1]))
    assert bench.again[2:] == held_anew
