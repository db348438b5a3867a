"""How the hot loop waits while nothing comes: in its own epoll set, which contains trio's epoll set as one more
descriptor. A detour through trio costs about 20 us of a lone request, and a tenth of a message's way to a waiting
consumer. So trio runs only when it has something to do: a task that can run, a deadline, or a descriptor of its own."""

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
    """Internals of trio: the epoll set in which it waits, and the next deadline of all tasks, on its clock."""

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
        """After this many checkpoints, all tasks that were scheduled before we looked have had their turn."""

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
        """The callback for trio's descriptor: the loop calls it if it finds trio ready. It is reported once until we
        ask again."""
        return {self._trio.epoll_fd: self._trio_is_ready} if self._trio is not None else {}

    def _trio_is_ready(self) -> None:
        self._is_armed = False

    async def wait(self, *, gather: bool = False) -> Events:
        """Ready events, or none if the set has to be polled again. If trio has something to do, it runs first. With
        ``gather`` it also runs afterwards, so that requests of many clients gather: handling them together is cheaper
        than starting with the first."""
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
        """How long trio has nothing to do, unless its descriptor becomes ready."""
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
    """Trio's internals; None if they are not where trio 0.31 to 0.35 has them. The loop then waits in trio, which works
    as well and takes longer."""
    context = getattr(getattr(getattr(trio, "_core", None), "_run", None), "GLOBAL_RUN_CONTEXT", None)
    runner = getattr(context, "runner", None)
    epoll = getattr(getattr(runner, "io_manager", None), "_epoll", None)
    next_deadline_s = getattr(getattr(runner, "deadlines", None), "next_deadline", None)
    if not isinstance(epoll, select.epoll) or next_deadline_s is None:
        return None
    return Inside(epoll.fileno(), next_deadline_s)


def _is_real_time() -> bool:
    """Whether a second of trio's clock is a real one; a test's clock may differ."""
    clock = trio.lowlevel.current_clock()
    return _SECOND_MIN_S < clock.deadline_to_sleep_time(clock.current_time() + 1) < _SECOND_MAX_S
