"""A cluster, a network, tasks and drivers in virtual time: the fault model of the replay design.

These faults may happen. A request is appended late (within the settle time) or never. Its answer is lost, or says busy.
A request takes longer to send than a permit lasts. A task is killed. A task is declared lost but goes on sending,
however slowly. A driver dies between any two steps, even in the middle of a ledger line, and its tasks go on until
their permits end. Two things may not happen: the target loses an appended message, or appends a request after the
settle time.

Every task attempt is a thread that runs the real ``TaskDelivery``. A baton lets one thread move at a time. A seeded
generator chooses which, so a run is a function of its seed.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rmqproto.bodies.base import MessageQueue
from rmqreplay.ledger.ledger import Begin, DoneLine, EndLine, Fence, FenceLine, Ledger, encode_line
from rmqreplay.ledger.letters import replay_id
from rmqreplay.plans.plan import Plan
from rmqreplay.sending.delivery import (
    Answer,
    Batch,
    BatchOutcome,
    DeliveryError,
    DeliveryReport,
    Limits,
    Outgoing,
    TaskDelivery,
)
from rmqreplay.sending.permits import Denied, Entered, Granted, PermitBook, Wait
from rmqreplay.source.offset_ranges import OffsetSet

SETTLE_S = 3.0
TTL_S = 2.0
ANSWER_TIMEOUT_S = 1.0
STEPS_MAX = 40_000


class Killed(BaseException):
    """Ends a simulated task's thread."""


class DriverDied(Exception):
    """The driver stops here."""


@dataclass
class World:
    """The time, the target's queue, and the requests on their way."""

    rng: random.Random
    protected: bool = True
    now: float = 1000.0
    appended: list[str] = field(default_factory=list)
    under_way: list[tuple[float, list[str]]] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.under_way if each[0] <= self.now]
        self.under_way = [each for each in self.under_way if each[0] > self.now]
        for _, ids in sorted(due):
            self.appended += ids

    def counts(self) -> Counter[str]:
        return Counter(self.appended)


class Actor:
    """One attempt of one task, moved step by step."""

    def __init__(self, world: World, book: Callable[[], PermitBook | None], wave: int, partition: int, attempt: int):
        self.world, self.book = world, book
        self.wave, self.partition, self.attempt = wave, partition, attempt
        self.fence = 0
        self.messages: list[Outgoing] = []
        self.wake_at = 0.0
        self.result: DeliveryReport | None = None
        self.error: Exception | None = None
        self.finished = False
        self.killed = False
        self._on_wire: list[tuple[float, BatchOutcome]] = []
        self._settled_at = 0.0
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    # --- moved by the scheduler

    def step(self) -> None:
        self._go.release()
        self._stopped.acquire()

    def end(self) -> None:
        self.killed = True
        if not self.finished:
            self.step()
        self._thread.join()

    @property
    def is_ready(self) -> bool:
        return not self.finished and self.wake_at <= self.world.now

    def _main(self) -> None:
        self._go.acquire()
        try:
            limits = Limits(batch_messages=3, in_flight=2)
            if not self.killed:
                self.result = TaskDelivery(self, self, self.world.clock, self.sleep, limits).run(self.messages)
        except DeliveryError as error:
            self.error = error
        except Killed:
            pass
        self.finished = True
        self._stopped.release()

    def _pause(self) -> None:
        self._stopped.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    # --- called by TaskDelivery

    def sleep(self, seconds: float) -> None:
        self.wake_at = self.world.now + seconds
        self._pause()

    def enter(self) -> Entered | Wait | Denied:
        self._pause()
        if not self.world.protected:
            return Entered(False)
        book = self.book()
        return book.enter(self.wave, self.partition, self.attempt) if book else Denied("driver is gone")

    def ask(self, count: int, size_bytes: int) -> Granted | Wait | Denied:
        self._pause()  # the request for a permit is under way
        if not self.world.protected:
            return Granted(count, 1e9)
        book = self.book()
        answer = (
            book.ask(self.wave, self.partition, self.attempt, count, size_bytes) if book else Denied("driver is gone")
        )
        self._pause()  # the permit is under way
        return answer

    def extend(self) -> Granted | Denied:
        self._pause()
        if not self.world.protected:
            return Granted(0, 1e9)
        book = self.book()
        answer = book.extend(self.wave, self.partition, self.attempt) if book else Denied("driver is gone")
        self._pause()
        return answer

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        self._pause()
        world, rng = self.world, self.world.rng
        if world.now >= not_after:
            return False
        if rng.random() < 0.1 and not self._send_slowly(not_after, extend):
            self._settled_at = world.now + SETTLE_S
            self._on_wire.append((world.now, BatchOutcome(batch, Answer.IN_DOUBT)))
            return True
        fate = rng.random()
        ids = [each.replay_id for each in batch.messages]
        append_at = world.now + (rng.random() * SETTLE_S if fate < 0.3 else 0.001)
        self._settled_at = world.now + SETTLE_S
        answer_at = world.now + ANSWER_TIMEOUT_S
        if fate < 0.08:
            answer = Answer.IN_DOUBT  # the request is lost
        elif fate < 0.16:
            answer, answer_at = Answer.BUSY, world.now + 0.001
        else:
            world.under_way.append((append_at, ids))
            late = append_at >= answer_at
            answer = Answer.IN_DOUBT if late or fate > 0.85 else Answer.STORED
            answer_at = answer_at if answer is Answer.IN_DOUBT else append_at
        self._on_wire.append((answer_at, BatchOutcome(batch, answer)))
        return True

    def _send_slowly(self, not_after: float, extend: Callable[[], float]) -> bool:
        """Whether all bytes of a long request went out before the permit's end, which may be put off meanwhile."""
        for _ in range(self.world.rng.randrange(1, 6)):
            self.sleep(self.world.rng.random() * TTL_S)
            if self.world.now >= not_after:
                not_after = extend()
            if self.world.now >= not_after:
                return False
        return True

    def outcomes(self) -> list[BatchOutcome]:
        if not self._on_wire:
            return []
        self._on_wire.sort(key=lambda each: each[0])
        self.wake_at = self._on_wire[0][0]
        self._pause()
        came = [each for at, each in self._on_wire if at <= self.world.now]
        self._on_wire = [each for each in self._on_wire if each[0] > self.world.now]
        return came

    def settle(self) -> None:
        if self.world.protected:
            self.sleep(max(0.0, self._settled_at - self.world.now))

    def look(self) -> set[str]:
        self._pause()
        return set(self.world.appended[self.fence :]) if self.world.protected else set()


class Simulation:
    """One job, driven until it ends, through as many drivers as that takes."""

    def __init__(self, seed: int, plan: Plan, directory: str, partition_count: int, *, protected: bool = True):
        self.world = World(random.Random(seed), protected)
        self.rng = self.world.rng
        self.plan = plan
        self.directory = directory
        self.partition_count = partition_count
        self.book: PermitBook | None = None
        self.attempts = 0
        self.driver_deaths_left = self.rng.randrange(4)
        self.kills_left = self.rng.randrange(6)
        self.driver_count = 0

    def run(self) -> Counter[str]:
        """How often each replay id is at the target once all requests have arrived."""
        try:
            while True:
                self.driver_count += 1
                try:
                    self._drive()
                    break
                except DriverDied:
                    self.book = None
                    self.world.advance(self.rng.random() * 4)
            self.world.advance(100)
            for _ in range(50):  # surviving actors may try once more
                for actor in self.world.actors:
                    if actor.is_ready:
                        actor.step()
                self.world.advance(1)
        finally:
            for actor in self.world.actors:
                actor.end()
        self.world.advance(100)
        return self.world.counts()

    def _drive(self) -> None:
        with Ledger(self.directory) as ledger:
            book = self.book = PermitBook(self.world.clock, settle_s=SETTLE_S, ttl_s=TTL_S)
            if ledger.state.begin is None:
                self._write(ledger, Begin(self.plan.identity, 0))
            while (wave := ledger.state.next_wave(self.plan.wave_count)) is not None:
                recovering = ledger.state.open_wave == wave
                if not recovering:
                    end = len(self.world.appended)
                    self._write(ledger, FenceLine(wave, [Fence("T", "b", 0, end)]))
                book.open_wave(wave, recovering=recovering)
                delivered = self._run_wave(wave, ledger.state.fences[wave][0].queue_offset)
                book.close_wave()
                self._write(ledger, DoneLine(wave, delivered.to_json()))
            if ledger.state.end is None:
                self._write(ledger, EndLine(0))

    def _write(self, ledger: Ledger, line: Begin | FenceLine | DoneLine | EndLine) -> None:
        """Writes the line, or lets the driver die before, during or after the write."""
        if self.driver_deaths_left and self.rng.random() < 0.1:
            self.driver_deaths_left -= 1
            if (kind := self.rng.randrange(3)) == 1:
                data = encode_line(line)
                with open(f"{self.directory}/ledger.jsonl", "ab") as file:
                    file.write(data[: self.rng.randrange(1, len(data))])
            elif kind == 2:
                ledger.append(line)
            raise DriverDied
        ledger.append(line)

    def _run_wave(self, wave: int, fence: int) -> OffsetSet:
        running = [self._start(wave, partition, fence) for partition in range(self.partition_count)]
        done: dict[int, DeliveryReport] = {}
        for _ in range(STEPS_MAX):
            self._move_somebody()
            for partition, actor in enumerate(running):
                if partition not in done and actor.finished and actor.result is not None:
                    done[partition] = actor.result
                elif partition not in done and (actor.finished or self._is_unlucky()):
                    running[partition] = self._start(wave, partition, fence)  # after a kill, or beside a zombie
                    if not actor.finished and self.rng.random() < 0.5:
                        actor.end()
            if len(done) == self.partition_count:
                break
            if self.driver_deaths_left and self.rng.random() < 0.002:
                self.driver_deaths_left -= 1
                raise DriverDied
        else:
            raise AssertionError("the wave does not end")
        return OffsetSet.of_offsets(place for each in done.values() for place in [*each.stored, *each.found])

    def _move_somebody(self) -> None:
        ready = [actor for actor in self.world.actors if actor.is_ready]
        if ready and self.rng.random() < 0.9:
            self.rng.choice(ready).step()
        else:
            self.world.advance(self.rng.choice([0.01, 0.1, 0.1, 1.0, TTL_S]))

    def _is_unlucky(self) -> bool:
        if self.kills_left and self.rng.random() < 0.005:
            self.kills_left -= 1
            return True
        return False

    def _start(self, wave: int, partition: int, fence: int) -> Actor:
        self.attempts += 1
        book = self.book
        actor = Actor(self.world, lambda: book if book is self.book else None, wave, partition, self.attempts)
        actor.fence = fence
        places = [(each.queue, offset) for each in self.plan.wave(wave) for offset in range(each.start, each.end)]
        actor.messages = [self._message(queue, offset) for queue, offset in places[partition :: self.partition_count]]
        self.world.actors.append(actor)
        return actor

    def _message(self, queue: MessageQueue, offset: int) -> Outgoing:
        return Outgoing(replay_id(self.plan.replay_job, queue, offset), queue, offset, "T", b"", "")
