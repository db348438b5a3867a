"""Time, chance, and the machines of a simulation. Everything that happens is an event in one heap, all chance is drawn
from one seed, and no real clock is read: a seed determines a history."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import Any

EPOCH_S = 1_700_000_000.0
"""The wall-clock time at the start."""


class Freeze(Enum):
    PROCESS = auto()
    SLEEP = auto()
    """The machine sleeps: the clock of timers stands still, but the clock of the time since boot goes on."""
    CLOCKS = auto()
    """A virtual machine is stopped with all of its clocks, so it cannot notice."""


class Machine:
    """One process on its own machine. ``life`` counts its lives: events that were due in an earlier life do not happen.
    A frozen machine handles no events until it is woken, and then handles all of them. Its clocks go on, unless it
    sleeps, or is stopped with all of its clocks."""

    def __init__(self, world: World, name: str):
        self.world = world
        self.name = name
        self.life = 0
        self.is_up = False
        self.is_frozen = False
        self.rate = 1.0
        """Speed of its clocks and timers, relative to true time."""
        self.wall_offset_s = 0.0
        self.slept_s = 0.0
        """How far the clock of its timers is behind, because it stands still while the machine sleeps."""
        self.stopped_s = 0.0
        """How far all of its clocks are behind, because they were stopped; running timers were delayed by as much."""
        self._frozen_s = 0.0
        """When it was frozen."""
        self._freeze = Freeze.PROCESS
        self.tasks: dict[Any, None] = {}
        """Tasks of ``tasks.py``, in the order in which they began."""
        self._held: list[tuple[int, Callable[[], None]]] = []

    def monotonic_s(self) -> float:
        return self.boot_s() - self.slept_s

    def boot_s(self) -> float:
        return 1000.0 + self.world.now_s * self.rate - self.stopped_s

    def wall_s(self) -> float:
        return EPOCH_S + self.world.now_s * self.rate - self.stopped_s + self.wall_offset_s

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls ``call`` after ``seconds`` of the machine's own clock, if it is still in the same life."""
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
        """The machine whose event runs; None for an event of no machine."""
        self.lines: list[str] | None = None
        """The history, if it is recorded."""
        self._heap: list[tuple[float, int, Machine | None, int, Callable[[], None]]] = []
        self._count = 0
        self._is_stopped = False

    def at(self, when_s: float, call: Callable[[], None], machine: Machine | None = None) -> None:
        """Events at the same time run in the order in which they were added."""
        self._count += 1
        heapq.heappush(self._heap, (when_s, self._count, machine, machine.life if machine else 0, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.now_s + seconds, call)

    def stop(self) -> None:
        """Ends ``run_until`` after the present event."""
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
