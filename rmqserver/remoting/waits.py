"""How the hot loop waits while nothing comes: in its own epoll set, in which trio's is one more descriptor. Trio's way
there and back is some 20 us of what a lone request takes, and a tenth of a message's way to a consumer that waits. So
trio is asked only when it has something to do: a task that can run, a deadline, or a descriptor of its own."""

from __future__ import annotations

import math
import select
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

import trio

Events = list[tuple[int, int]]
"""Descriptor and epoll's bits."""

_SECOND_MIN_S, _SECOND_MAX_S = 0.5, 1.5


class Inside(NamedTuple):
    """What trio keeps to itself: the epoll set in which it waits, and the next deadline of all tasks, on its clock."""

    epoll_fd: int
    next_deadline_s: Callable[[], float]


class Waits(trio.abc.Instrument):
    """A context of the one task that waits. Trio calls the two methods without a docstring."""

    def __init__(self, epoll: select.epoll):
        self._epoll = epoll
        self._trio: Inside | None = None
        self._is_armed = False
        self._can_run: set[trio.lowlevel.Task] = set()
        """Tasks that were scheduled and have not had their turn yet."""
        self._checkpoints_to_know_all = 2
        """What was scheduled before we looked has had its turn after so many."""

    def __enter__(self) -> Self:
        self._trio = inside_trio() if _is_real_time() else None
        if self._trio is not None:
            trio.lowlevel.add_instrument(self)
            self._epoll.register(self._trio.epoll_fd, 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._trio is not None:
            trio.lowlevel.remove_instrument(self)
            self._epoll.unregister(self._trio.epoll_fd)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        self._can_run.add(task)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._can_run.discard(task)

    @property
    def watched(self) -> dict[int, Callable[[], None]]:
        """What the loop is to call when it finds which descriptor ready: once for as long as we do not ask again."""
        return {self._trio.epoll_fd: self._trio_is_ready} if self._trio is not None else {}

    def _trio_is_ready(self) -> None:
        self._is_armed = False

    async def wait(self, *, gather: bool = False) -> Events:
        """What is ready, or nothing where the set has to be asked again. Trio has its turn before if it has something
        to do. ``gather``: it has one more behind, in which requests of many clients come together: to handle them at
        once is cheaper than to begin with the first."""
        inside = self._trio
        if inside is None:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            return []
        while True:
            idle_s = self._trio_is_idle_for_s(inside)
            if idle_s <= 0:
                await self._let_trio_run(inside)
            events = self._epoll.poll(None if idle_s == math.inf else max(idle_s, 0))
            if not events:
                continue
            if any(fd == inside.epoll_fd for fd, _ in events):
                self._trio_is_ready()
                if len(events) == 1:
                    continue
            if gather:
                await self._let_trio_run(inside)
                return []
            return events

    def _trio_is_idle_for_s(self, inside: Inside) -> float:
        """How long it has nothing to do, unless its descriptor tells."""
        if self._can_run or self._checkpoints_to_know_all > 0 or not self._is_armed:
            return 0
        return inside.next_deadline_s() - trio.current_time()

    async def _let_trio_run(self, inside: Inside) -> None:
        if not self._is_armed:
            self._epoll.modify(inside.epoll_fd, select.EPOLLIN | select.EPOLLONESHOT)
            self._is_armed = True
        self._checkpoints_to_know_all -= 1
        await trio.lowlevel.checkpoint()


def inside_trio() -> Inside | None:
    """None if it is not where it is in trio 0.31 to 0.35: then the loop waits in trio, which works as well and takes
    longer."""
    context = getattr(getattr(getattr(trio, "_core", None), "_run", None), "GLOBAL_RUN_CONTEXT", None)
    runner = getattr(context, "runner", None)
    epoll = getattr(getattr(runner, "io_manager", None), "_epoll", None)
    next_deadline_s = getattr(getattr(runner, "deadlines", None), "next_deadline", None)
    if not isinstance(epoll, select.epoll) or next_deadline_s is None:
        return None
    return Inside(epoll.fileno(), next_deadline_s)


def _is_real_time() -> bool:
    """Whether a second of trio's clock is one of ours, and not one of a test."""
    clock = trio.lowlevel.current_clock()
    return _SECOND_MIN_S < clock.deadline_to_sleep_time(clock.current_time() + 1) < _SECOND_MAX_S
