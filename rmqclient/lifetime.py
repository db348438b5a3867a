"""``async with`` for a client with background tasks: one nursery, opened on entry and empty on exit."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import ParamSpec, Self

import anyio
import trio
from anyio.abc import TaskGroup

from rmqproto.errors import UsageError

P = ParamSpec("P")
"""What a client is made of: the arguments of its class."""

LEAVE_TIMEOUT_S = 5.0
"""How long a client may take to finish its work and to unregister from the brokers."""


@contextmanager
def cancelled_alone() -> Iterator[None]:
    """Around code of the application. Where our task was not cancelled, ``asyncio.CancelledError`` comes from a task
    that this code waited for: a failure like any other, raised as RuntimeError."""
    try:
        yield
    except asyncio.CancelledError as error:
        if not trio.lowlevel.in_trio_task() and (task := asyncio.current_task()) and task.cancelling():
            raise
        raise RuntimeError("a task that it waited for was cancelled") from error


class Lifetime(ABC):
    """Base of the clients. An error of the body is raised as it is, not in a group. A background task that fails
    cancels the body, and its error is raised in a group. If the body is cancelled from outside, ``_leave`` still runs:
    the background tasks are shielded until it has ended."""

    @abstractmethod
    async def _start(self, nursery: TaskGroup) -> None:
        """Starts the background tasks. They are cancelled when the body has ended and ``_leave`` has returned."""

    @abstractmethod
    async def _leave(self) -> None:
        """Unregisters and finishes work while the background tasks still run. It is abandoned after LEAVE_TIMEOUT_S."""

    _is_entered = False

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise UsageError("this client is in use: it can be entered again when it was left")
        self._is_entered = True
        self._manager = anyio.create_task_group()
        self._nursery = await self._manager.__aenter__()
        self._shield = anyio.CancelScope(shield=True)
        self._is_held = anyio.Event()
        # Not ``Nursery.start``: if we are cancelled by then, it waits until the task ends, which is shielded.
        self._nursery.start_soon(self._hold_background)
        try:
            with anyio.CancelScope(shield=True):
                await self._is_held.wait()
            await self._start(self._background)
        except BaseException as error:
            await self._end(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self._nursery.cancel_scope.cancel_called:  # otherwise a background task has failed
            with anyio.move_on_after(LEAVE_TIMEOUT_S) as scope:
                scope.shield = True
                await self._leave()
        return await self._end(error)

    async def _hold_background(self) -> None:
        with self._shield:
            async with anyio.create_task_group() as self._background:
                self._is_held.set()
                await anyio.sleep_forever()

    async def _end(self, error: BaseException | None) -> bool:
        """Ends the background tasks. Returns whether ``error`` was only the cancellation of the body by them."""
        self._is_entered = False
        self._shield.cancel()
        if error is not None and _holds_cancelled(error):  # the nursery knows its own cancellations
            return bool(await self._manager.__aexit__(type(error), error, error.__traceback__))
        await self._manager.__aexit__(None, None, None)
        return False


def _holds_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(anyio.get_cancelled_exc_class()) is not None
    return isinstance(error, anyio.get_cancelled_exc_class())
