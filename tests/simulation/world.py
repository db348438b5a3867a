"""Time, chance, and the machines of a simulation. Everything that happens is an event in one heap, all chance is drawn
from one seed, and no real clock is asked: a seed is a history."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import Any

EPOCH_S = 1_700_000_000.0
"""What wall clocks say at the begin."""


class Freeze(Enum):
    PROCESS = auto()
    SLEEP = auto()
    """The clock of timers stands still, and that of the time since the machine's start goes on."""
    CLOCKS = auto()
    """A virtual machine that is stopped with all of its clocks: it sees nothing of it."""


class Machine:
    """One process on a machine of its own. ``life`` counts its starts: what was to happen in an earlier one does not.
    A frozen one does nothing, and all of it when it is woken. Its clocks go on, unless it sleeps, or is stopped with
    all of its clocks."""

    def __init__(self, world: World, name: str):
        self.world = world
        self.name = name
        self.life = 0
        self.is_up = False
        self.is_frozen = False
        self.rate = 1.0
        """Of its clocks and its timers, to the true time."""
        self.wall_offset_s = 0.0
        self.slept_s = 0.0
        """By how much the clock of its timers is behind, which stands still while it sleeps."""
        self.stopped_s = 0.0
        """The same of all of its clocks. A timer that ran then is so much later."""
        self._frozen_s = 0.0
        """Since when."""
        self._freeze = Freeze.PROCESS
        self.tasks: dict[Any, None] = {}
        """Of ``tasks.py``, in the order of their beginning."""
        self._held: list[tuple[int, Callable[[], None]]] = []

    def monotonic_s(self) -> float:
        return self.boot_s() - self.slept_s

    def boot_s(self) -> float:
        return 1000.0 + self.world.now_s * self.rate - self.stopped_s

    def wall_s(self) -> float:
        return EPOCH_S + self.world.now_s * self.rate - self.stopped_s + self.wall_offset_s

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """By its own clock, in this life of it."""
        stood_s = self.slept_s + self.stopped_s

        def come() -> None:
            stood_since_s = self.slept_s + self.stopped_s - stood_s
            if stood_since_s:
                self.after(stood_since_s, call)
            else:
                call()

        self.world.at(self.world.now_s + max(seconds, 0) / self.rate, come, self)

    def soon(self, call: Callable[[], None]) -> None:
        self.world.at(self.world.now_s, call, self)

    def hold(self, life: int, call: Callable[[], None]) -> None:
        self._held.append((life, call))

    def freeze(self, freeze: Freeze) -> None:
        self.is_frozen, self._frozen_s, self._freeze = True, self.world.now_s, freeze

    def wake(self) -> None:
        if self.is_frozen:
            stood_s = (self.world.now_s - self._frozen_s) * self.rate
            self.slept_s += stood_s if self._freeze is Freeze.SLEEP else 0
            self.stopped_s += stood_s if self._freeze is Freeze.CLOCKS else 0
        self.is_frozen = False
        held, self._held = self._held, []
        for life, call in held:
            if life == self.life:
                self.soon(call)


class World:
    def __init__(self, seed: int):
        self.seed = seed
        self.random = Random(seed)
        self.now_s = 0.0
        self.machine: Machine | None = None
        """Whose event runs; None for what no machine does."""
        self.lines: list[str] | None = None
        """The history, if somebody wants to read it."""
        self._heap: list[tuple[float, int, Machine | None, int, Callable[[], None]]] = []
        self._count = 0
        self._is_stopped = False

    def at(self, when_s: float, call: Callable[[], None], machine: Machine | None = None) -> None:
        """What is at one time is in the order in which it was said."""
        self._count += 1
        heapq.heappush(self._heap, (when_s, self._count, machine, machine.life if machine else 0, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.now_s + seconds, call)

    def stop(self) -> None:
        """``run_until`` ends with the event that calls this."""
        self._is_stopped = True

    def run_until(self, end_s: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end_s and not self._is_stopped:
            self.now_s, _, machine, life, call = heapq.heappop(heap)
            if machine is not None:
                if not machine.is_up or machine.life != life:
                    continue
                if machine.is_frozen:
                    machine.hold(life, call)
                    continue
            self.machine = machine
            call()

    def note(self, who: str, text: str) -> None:
        if self.lines is not None:
            self.lines.append(f"{self.now_s:9.4f}  {who:<8} {text}")
