"""What arrives on a trio stream, handed to a plain function. With the loop this costs one system call, in the round in
which it has come, and what the function sends to connections leaves with that round. A task of trio costs five more
calls and two turns of the scheduler, but needs no loop: so it is in tests, and in the simulation of replication."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import trio

if TYPE_CHECKING:
    from rmqserver.remoting.loop import Loop

Take = Callable[[bytes | memoryview], bool]
"""Whether it wants more. What it is given is its own until it returns."""


class Ended(StrEnum):
    CLOSED = "closed"
    """By the peer."""
    SILENT = "silent"
    """Nothing has come for too long."""
    ENOUGH = "enough"
    """The function wants no more."""


class HandOver(Protocol):
    async def __call__(
        self, stream: trio.SocketStream, take: Take, *, at_once_max_bytes: int, silence_max_s: float
    ) -> Ended:
        """Returns when nothing is handed over any more. What ``take`` raises is raised here; OSError or
        BrokenResourceError where the connection breaks. Nobody else may receive on the stream meanwhile."""
        ...


async def by_task(
    stream: trio.SocketStream, take: Take, *, at_once_max_bytes: int, silence_max_s: float
) -> Ended:  # fmt: skip
    while True:
        data = b""
        with trio.move_on_after(silence_max_s) as scope:
            data = await stream.receive_some(at_once_max_bytes)
        if not data:
            return Ended.SILENT if scope.cancelled_caught else Ended.CLOSED
        if not take(data):
            return Ended.ENOUGH


class ByLoop:
    """In the rounds of a loop, which runs as long as anything is handed over."""

    def __init__(self, loop: Loop):
        self._loop = loop

    async def __call__(
        self, stream: trio.SocketStream, take: Take, *, at_once_max_bytes: int, silence_max_s: float
    ) -> Ended:
        watch = _Watch(self._loop, stream, take, at_once_max_bytes)
        try:
            while not watch.has_ended.is_set():
                with trio.move_on_at(watch.newest_s + silence_max_s):
                    await watch.has_ended.wait()
                if trio.current_time() >= watch.newest_s + silence_max_s:
                    return Ended.SILENT
        finally:
            watch.end()
        if watch.error is not None:
            raise watch.error
        assert watch.why is not None
        return watch.why


class _Watch:
    """One stream in the loop, from the begin until ``end``."""

    def __init__(self, loop: Loop, stream: trio.SocketStream, take: Take, at_once_max_bytes: int):
        self.newest_s = trio.current_time()
        """When something has come."""
        self.has_ended = trio.Event()
        self.why: Ended | None = None
        self.error: Exception | None = None
        self._loop = loop
        self._fd = stream.socket.fileno()
        self._take = take
        self._buffer = memoryview(bytearray(at_once_max_bytes))
        loop.watch(self._fd, self._ready)

    def _ready(self) -> None:
        try:
            why = self._hand_over()
        except Exception as error:  # the task's that waits: it is raised there
            self.error, why = error, Ended.ENOUGH
        if why is not None:
            self.why = why
            self.has_ended.set()
            self.end()

    def _hand_over(self) -> Ended | None:
        """Once. Why nothing comes any more; None if more is wanted."""
        try:
            size = os.readv(self._fd, [self._buffer])
        except BlockingIOError:
            return None
        self.newest_s = trio.current_time()
        if not size:
            return Ended.CLOSED
        return None if self._take(self._buffer[:size]) else Ended.ENOUGH

    def end(self) -> None:
        self._loop.unwatch(self._fd)
