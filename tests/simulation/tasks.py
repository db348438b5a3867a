"""Tasks on the simulated machines: the parts of trio that the product's modules use, with the same names, on
``world.py``'s time.

Trio itself would not do: it draws the order of its tasks by itself, and has one clock for all of them, so no simulated
process could freeze, or have a faster clock. The semantics are trio's: a nursery waits for its children, and one that
fails cancels the others; a cancelled scope raises at every wait in it; a wait that has ended before it was cancelled
counts.
"""

from __future__ import annotations

import math
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import trio

from tests.simulation.world import Machine, World

BrokenResourceError = trio.BrokenResourceError
TooSlowError = trio.TooSlowError


class Cancelled(BaseException):
    pass


class _Running:
    """``world`` is the world that runs, ``task`` its running task. Only one simulation runs at a time."""

    world: World
    task: Task


running = _Running()


class Task:
    def __init__(self, machine: Machine, coro: Coroutine[Any, Any, None], scope: CancelScope | None):
        self.machine = machine
        self.coro = coro
        self.scope = scope
        self.parking = 0
        """Number of the present wait; a negative one cannot be cancelled."""
        self.is_parked = False
        self.on_end: Callable[[BaseException | None], None] = _raise
        self._parkings = 0
        machine.tasks[self] = None
        machine.soon(self._step)

    def park(self, *, is_shielded: bool) -> int:
        if self not in self.machine.tasks:  # killed: it cannot wait for anything while it ends
            raise GeneratorExit
        self._parkings += 1
        self.parking = -self._parkings if is_shielded else self._parkings
        return self.parking

    def wake(self, parking: int, error: BaseException | None = None) -> None:
        """Ends that wait, unless it has ended already."""
        if self.is_parked and parking == self.parking:
            self.is_parked = False
            self.machine.soon(lambda: self._step(error))

    def cancel_if_due(self) -> None:
        if self.is_parked and self.parking > 0 and self.scope is not None and self.scope.is_due:
            self.wake(self.parking, Cancelled())

    def _step(self, error: BaseException | None = None) -> None:
        if self not in self.machine.tasks:
            return
        running.task = self
        try:
            if error is None:
                self.coro.send(None)
            else:
                self.coro.throw(error)
        except StopIteration:
            self._ended(None)
        except BaseException as problem:  # goes to the nursery, or ends the simulation
            self._ended(problem)
        else:
            self.is_parked = True
            self.cancel_if_due()

    def _ended(self, problem: BaseException | None) -> None:
        del self.machine.tasks[self]
        self.on_end(problem)


def _raise(problem: BaseException | None) -> None:
    if problem is not None and not isinstance(problem, Cancelled):
        raise problem


def spawn(machine: Machine, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    """Starts a task of the machine; an exception of it ends the simulation."""
    Task(machine, function(*args), None)


def kill(machine: Machine) -> None:
    """Ends the machine's tasks. What they do while they end has no effect, since ``machine.life`` has changed."""
    tasks, machine.tasks = list(machine.tasks), {}
    for task in tasks:
        running.task = task
        task.coro.close()


@types.coroutine
def _suspend() -> Generator[None, None, None]:
    yield


async def checkpoint() -> None:
    task = running.task
    parking = task.park(is_shielded=False)
    task.machine.soon(lambda: task.wake(parking))
    await _suspend()


async def sleep(seconds: float) -> None:
    task = running.task
    parking = task.park(is_shielded=False)
    task.machine.after(seconds, lambda: task.wake(parking))
    await _suspend()


async def sleep_forever() -> None:
    running.task.park(is_shielded=False)
    await _suspend()


def current_time() -> float:
    """Time by the clock of the machine whose event runs, whether it is a task's or not."""
    machine = running.world.machine
    return machine.monotonic_s()


class Event:
    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[tuple[Task, int]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for task, parking in waiting:
            task.wake(parking)

    async def wait(self) -> None:
        if self._is_set:
            await checkpoint()
            return
        self._waiting.append((running.task, running.task.park(is_shielded=False)))
        await _suspend()


class Lock:
    """First come, first served."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: list[Event] = []

    def locked(self) -> bool:
        return self._is_taken

    async def __aenter__(self) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        turn = Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except Cancelled:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._pass_on()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.pop(0).set()
        else:
            self._is_taken = False


class CancelScope:
    def __init__(self, timeout_s: float | None = None, *, deadline: float = math.inf, shield: bool = False):
        self.cancel_called = False
        self.cancelled_caught = False
        self.parent: CancelScope | None = None
        self._timeout_s = timeout_s
        self._deadline = deadline
        self._shield = shield
        self._task: Task | None = None

    def __enter__(self) -> CancelScope:
        self._task = task = running.task
        self.parent, task.scope = task.scope, self
        if self._timeout_s is not None:
            task.machine.after(self._timeout_s, self._timed_out)
        if self._deadline < math.inf:
            self.deadline = self._deadline
        return self

    @property
    def deadline(self) -> float:
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        """By ``current_time``."""
        self._deadline = deadline
        if self._task is not None:
            self._task.machine.after(deadline - current_time(), self._has_come)

    def _has_come(self) -> None:
        """Cancels at a deadline, unless it has been moved since."""
        if self._task is not None and current_time() >= self._deadline - 1e-9:
            self.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        self._task.scope, self._task = self.parent, None
        self.cancelled_caught = self.cancel_called and kind is not None and issubclass(kind, Cancelled)
        return self.cancelled_caught

    @property
    def is_due(self) -> bool:
        scope: CancelScope | None = self
        while scope is not None:
            if scope.cancel_called:
                return True
            scope = None if scope._shield else scope.parent
        return False

    def _timed_out(self) -> None:
        if self._task is not None:
            self.cancel()

    def cancel(self) -> None:
        if not self.cancel_called:
            self.cancel_called = True
            if self._task is not None:
                for task in list(self._task.machine.tasks):
                    task.cancel_if_due()


def move_on_after(seconds: float, *, shield: bool = False) -> CancelScope:
    return CancelScope(seconds, shield=shield)


def move_on_at(deadline: float) -> CancelScope:
    return CancelScope(deadline=deadline)


class fail_after(CancelScope):
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        is_late = super().__exit__(kind, error, trace)
        if is_late:
            raise TooSlowError
        return is_late


class Nursery:
    def __init__(self) -> None:
        self.cancel_scope = CancelScope()
        self._children = 0
        self._errors: list[BaseException] = []
        self._parent: tuple[Task, int] | None = None

    async def __aenter__(self) -> Nursery:
        self.cancel_scope.__enter__()
        self._machine = running.task.machine
        return self

    def start_soon(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        self._children += 1
        task = Task(self._machine, function(*args), self.cancel_scope)  # type: ignore[arg-type]
        task.on_end = self._ended

    def _ended(self, problem: BaseException | None) -> None:
        self._children -= 1
        if problem is not None:
            self._errors.append(problem)
            self.cancel_scope.cancel()
        if self._parent is not None and not self._children:
            task, parking = self._parent
            task.wake(parking)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if kind is GeneratorExit:  # the machine was killed
            return False
        if error is not None:
            self._errors.append(error)
            self.cancel_scope.cancel()
        if self._children:
            self._parent = running.task, running.task.park(is_shielded=True)
            await _suspend()
        self.cancel_scope.__exit__(None, None, None)
        problems = [each for each in self._errors if not isinstance(each, Cancelled)]
        if len(problems) > 1:
            raise BaseExceptionGroup("several tasks failed", problems)
        if problems:
            if problems[0] is error:
                return False
            raise problems[0]
        if self.cancel_scope.parent is not None and self.cancel_scope.parent.is_due:
            raise Cancelled
        return True


def open_nursery() -> Nursery:
    return Nursery()


class lowlevel:
    checkpoint = staticmethod(checkpoint)
