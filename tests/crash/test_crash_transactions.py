"""Crashes of half messages, op messages, commits and offsets, by the fault model of ``recording_disk.py``. A committed
message is there exactly once, as soon as its producer has answered any check with its decision again. A message that
was rolled back, or never ended, is not there."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import trio

from rmqproto.headers.sending import COMMIT, ROLLBACK
from rmqserver.broker.transactions import state
from rmqserver.broker.transactions.end_transaction import EndTransactions
from rmqserver.broker.transactions.state import History, TransactionState
from rmqserver.core import Appended
from rmqserver.store.options import FlushMode
from tests.rmqserver.broker.transactions.bench import Asked, Bench
from tests.support.clock import Clock

from .invariants import Violation
from .recording_disk import Loss, RecordingDisk
from .workload import ROOT, USER_DIRECTORY

STEPS = 40
ROUNDS_MAX = 40
LOSSES = (Loss.NOTHING, Loss.EVERYTHING, Loss.TORN, Loss.SOME)
WEIGHTS = (1, 2, 2, 3)
IMAGES = 0.2
"""Share of the changes of the disk after which an image is checked."""


def opened(disk: RecordingDisk, clock: Clock) -> Bench:
    return Bench(Path(ROOT), flush_mode=FlushMode.SYNC, clock=clock, disk=disk)


class Day:
    """One run of a seed; at some changes of the disk, an image is checked."""

    def __init__(self, seed: int, images_max: int):
        self.images_left = images_max
        self._seed = seed
        self._rng, self._image_rng = Random(seed), Random(seed + 1)
        self._disk = RecordingDisk()
        self._clock = Clock()
        self._halves: list[Appended] = []
        self._decisions: dict[int, int] = {}
        """By the transaction's number: what its producer has decided, and maybe already told the broker."""
        self._known_count = 0
        """How many half messages were acknowledged, since a flush covered them."""
        self._change_count = 0
        self._violation: Violation | None = None

    def run(self) -> None:
        self._disk.mkdir(USER_DIRECTORY)
        self._disk.sync_directory("/")
        bench = opened(self._disk, self._clock)
        self._disk.on_change = self._crash
        for _ in range(STEPS):
            for _ in range(self._rng.randrange(3)):
                self._halves.append(bench.send_half(b"%d" % len(self._halves)))
            bench.flush()
            self._known_count = len(self._halves)
            for _ in range(self._rng.randrange(3)):
                self._end_one(bench)
            if self._rng.random() < 0.3:
                for asked in trio.run(bench.check):
                    self._answer(bench, asked)
            if self._rng.random() < 0.4:
                bench.write_op_messages()
            if self._rng.random() < 0.3:  # transactions that ended in this step are not flushed yet
                bench.transactions.state.save_when_kept()
                bench.parts.offsets.save()
                bench.files.wait_until_saved()
        self._disk.on_change = None
        bench.abandon()
        if self._violation is not None:
            raise self._violation

    def _end_one(self, bench: Bench) -> None:
        """A producer ends a transaction on its own once; later it only answers checks."""
        is_open = [number for number in range(len(self._halves)) if number not in self._decisions]
        if is_open:
            number = self._rng.choice((is_open[0], is_open[0], self._rng.choice(is_open)))  # mostly in order
            self._decisions[number] = self._rng.choice((COMMIT, ROLLBACK))
            bench.end(self._halves[number], self._decisions[number])

    def _answer(self, bench: Bench, asked: Asked) -> None:
        """Some producers answer a check; others are away."""
        if self._rng.random() < 0.5:
            number = int(asked.message.body)
            bench.end(asked, self._decisions.setdefault(number, self._rng.choice((COMMIT, ROLLBACK))))

    def _crash(self) -> None:
        self._change_count += 1
        if self.images_left <= 0 or self._violation is not None or self._image_rng.random() > IMAGES:
            return
        self.images_left -= 1
        (loss,) = self._image_rng.choices(LOSSES, WEIGHTS)
        image = self._disk.image(loss, Random(self._image_rng.getrandbits(32)))
        try:
            with ThreadPoolExecutor(1) as thread:  # trio.run cannot be nested
                thread.submit(self._check, image).result()
        except Exception as error:
            about = f"[seed {self._seed}, change {self._change_count}, {loss.name}]"
            self._violation = Violation(f"{error} {about}").with_traceback(error.__traceback__)

    def _check(self, image: RecordingDisk) -> None:
        decisions, known = dict(self._decisions), range(self._known_count)
        clock = Clock()
        clock.now_ms = self._clock.now_ms
        bench = opened(image, clock)
        quiet_rounds = 0
        for _ in range(ROUNDS_MAX):
            asked = trio.run(bench.check)
            for each in asked:
                bench.end(each, decisions.get(int(each.message.body), ROLLBACK))
            bench.write_op_messages()
            bench.flush()
            quiet_rounds = 0 if asked else quiet_rounds + 1
            if quiet_rounds == 2:
                break
        counts = Counter(map(int, bench.bodies()))
        bench.abandon()
        lost = [number for number in known if decisions.get(number) == COMMIT and not counts[number]]
        twice = [number for number, count in counts.items() if count > 1]
        not_wanted = [number for number in counts if decisions.get(number) != COMMIT]
        if lost or twice or not_wanted or quiet_rounds < 2:
            raise Violation(f"lost: {lost}, twice: {twice}, not wanted: {not_wanted}, quiet: {quiet_rounds}")


def days(image_count: int) -> None:
    left, seed = image_count, 0
    while left > 0:
        day = Day(seed, left)
        day.run()
        left, seed = day.images_left, seed + 1


@pytest.mark.parametrize("count", [40, pytest.param(4000, marks=pytest.mark.crash)])
def test_what_was_committed_is_there_once_and_nothing_else(count: int) -> None:
    days(count)


def _forgets_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "is_committed", lambda *_: False)


def _saves_before_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """And starts from what was saved, whatever the log says: each of the two heals the other."""
    monkeypatch.setattr(TransactionState, "save_when_kept", TransactionState.save)
    monkeypatch.setattr(state, "true_progress", lambda _store, _queue_id, *saved: saved)


def _commits_what_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndTransactions, "roll_back", EndTransactions.commit)


@pytest.mark.crash
@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (_forgets_what_is_committed, r"twice: \[\d"),
        (_saves_before_the_flush, r"lost: \[\d"),
        (_commits_what_is_rolled_back, r"not wanted: \[\d"),
    ],
)
def test_it_finds_what_is_broken(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[[pytest.MonkeyPatch], None], found: str
) -> None:
    broken(monkeypatch)
    with pytest.raises(Violation, match=found):
        days(4000)
