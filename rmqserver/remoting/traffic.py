"""Trio streams with heavy traffic: writes to their sockets without waiting, since a task's turn takes several times
as long as the system call, and two ways to use a stream. With the loop, bytes are handed over in the round in which
they come, and what they cause on connections leaves with that round; the loop also continues writing when the socket
takes more. With a trio task, each read takes five more system calls and turns of the scheduler, but needs no loop:
tests and the simulation of replication use it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import trio

if TYPE_CHECKING:
    from rmqserver.remoting.loop import Loop


PARTS_MAX = 1024
"""Parts that the kernel takes at a time (``IOV_MAX``)."""

Part = bytes | memoryview
"""Bytes to send."""


def take_much(stream: trio.SocketStream) -> None:
    """Makes the socket take as much as it has room for. Trio limits its streams to 16 KiB of unsent bytes, so that the
    program keeps the rest. Without that limit, each write takes 128 KiB, and the next one can follow at once."""
    with contextlib.suppress(OSError):  # it is gone, or not a TCP connection
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)  # 0: the system's value, usually no limit


def write_now(stream: trio.SocketStream, parts: list[Part]) -> int:
    """Sends what it can, and returns the number of bytes; nothing else may be sending. 0 also if the connection is
    broken: the caller learns that when it waits to send the rest."""
    try:
        return write_some(stream, parts)
    except OSError:
        return 0


def write_some(stream: trio.SocketStream, parts: list[Part]) -> int:
    """As ``write_now``, but OSError if the connection is broken."""
    try:
        return os.writev(stream.socket.fileno(), parts[:PARTS_MAX]) if parts else 0
    except BlockingIOError:
        return 0


async def write_all(stream: trio.SocketStream, parts: list[Part]) -> None:
    """Writes all parts, and waits while the socket is full. OSError."""
    while parts:
        parts = behind(parts, write_some(stream, parts))
        if parts:  # the socket is full
            await trio.lowlevel.wait_writable(stream.socket)
        else:
            await trio.lowlevel.checkpoint()


def behind(parts: list[Part], sent: int) -> list[Part]:
    """The parts that are left after ``sent`` bytes."""
    at = 0
    while at < len(parts) and sent >= len(parts[at]):
        sent -= len(parts[at])
        at += 1
    return [memoryview(parts[at])[sent:], *parts[at + 1 :]] if sent else parts[at:]


Take = Callable[[bytes | memoryview], bool]
"""Takes bytes, which are valid until it returns, and tells whether it wants more."""


class Ended(StrEnum):
    CLOSED = "closed"
    """The peer closed the stream."""
    SILENT = "silent"
    """Nothing has come for too long."""
    ENOUGH = "enough"
    """The function wants no more."""


class Traffic(Protocol):
    async def hand_over(
        self, stream: trio.SocketStream, take: Take, *, at_once_max_bytes: int, silence_max_s: float
    ) -> Ended:
        """Hands over what comes, and returns why it ended. Errors of ``take`` are raised here; OSError or
        BrokenResourceError if the connection breaks. Nothing else may receive on the stream meanwhile."""
        ...

    async def write_all(self, stream: trio.SocketStream, parts: list[Part]) -> None:
        """Writes the parts in order, without copying them here. OSError. Nothing else may send meanwhile."""
        ...


class ByTask:
    async def hand_over(
        self, stream: trio.SocketStream, take: Take, *, at_once_max_bytes: int, silence_max_s: float
    ) -> Ended:
        while True:
            data = b""
            with trio.move_on_after(silence_max_s) as scope:
                data = await stream.receive_some(at_once_max_bytes)
            if not data:
                return Ended.SILENT if scope.cancelled_caught else Ended.CLOSED
            if not take(data):
                return Ended.ENOUGH

    async def write_all(self, stream: trio.SocketStream, parts: list[Part]) -> None:
        await write_all(stream, parts)


BY_TASK = ByTask()


class ByLoop:
    """Uses the rounds of a loop, which must run as long as anything is under way."""

    def __init__(self, loop: Loop):
        self._loop = loop

    async def hand_over(
        self, stream: trio.SocketStream, take: Take, *, at_once_max_bytes: int, silence_max_s: float
    ) -> Ended:
        with _Reading(self._loop, stream.socket.fileno(), take, at_once_max_bytes) as reading:
            while not reading.has_ended.is_set():
                with trio.move_on_at(reading.newest_s + silence_max_s):
                    await reading.has_ended.wait()
                if reading.newest_s + silence_max_s <= trio.current_time() and reading.finds_nothing():
                    return Ended.SILENT
        return reading.why

    async def write_all(self, stream: trio.SocketStream, parts: list[Part]) -> None:
        parts = behind(parts, write_some(stream, parts))
        if not parts:
            await trio.lowlevel.checkpoint()
            return
        fd = os.dup(stream.socket.fileno())  # epoll holds each descriptor once, and reading uses the stream's own
        try:
            with _Writing(self._loop, fd, stream, parts) as writing:
                await writing.has_ended.wait()
        finally:
            os.close(fd)


class _Way:
    """One direction of a stream in the loop's epoll set, within ``with``, until it has ended. Its error is raised when
    the ``with`` block ends."""

    EVENTS = 0

    def __init__(self, loop: Loop, fd: int):
        self.has_ended = trio.Event()
        self._loop = loop
        self._fd = fd
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        self._loop.watch(self._fd, self._ready, self.EVENTS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.unwatch(self._fd)
        if self._error is not None and kind is None:
            raise self._error

    def _ready(self) -> None:
        try:
            goes_on = self._go_on()
        except Exception as error:  # it belongs to the waiting task, and is raised there
            self._error, goes_on = error, False
        if not goes_on:
            self._loop.unwatch(self._fd)
            self.has_ended.set()

    def _go_on(self) -> bool:
        """Does one step without waiting; False if the direction has ended."""
        raise NotImplementedError


class _Reading(_Way):
    EVENTS = select.EPOLLIN

    def __init__(self, loop: Loop, fd: int, take: Take, at_once_max_bytes: int):
        super().__init__(loop, fd)
        self.newest_s = trio.current_time()
        """When bytes last came."""
        self.why = Ended.ENOUGH
        self._take = take
        self._buffer = memoryview(bytearray(at_once_max_bytes))

    def finds_nothing(self) -> bool:
        """Reads once, outside the loop: a process that stood still sees its timers before the bytes that came
        meanwhile."""
        before_s = self.newest_s
        if not self.has_ended.is_set():
            self._ready()
        return self.newest_s == before_s and not self.has_ended.is_set()

    def _go_on(self) -> bool:
        try:
            size = os.readv(self._fd, [self._buffer])
        except BlockingIOError:
            return True
        self.newest_s = trio.current_time()
        if not size:
            self.why = Ended.CLOSED
            return False
        return self._take(self._buffer[:size])


class _Writing(_Way):
    EVENTS = select.EPOLLOUT

    def __init__(self, loop: Loop, fd: int, stream: trio.SocketStream, parts: list[Part]):
        super().__init__(loop, fd)
        self._stream = stream
        self._parts = parts

    def _go_on(self) -> bool:
        self._parts = behind(self._parts, write_some(self._stream, self._parts))
        return bool(self._parts)
