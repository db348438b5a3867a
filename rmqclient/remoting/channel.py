"""One connection of the clients: it sends frames, wakes the tasks that wait for answers, and passes the broker's
own requests to a handler.

It is built for a high rate: by measurement, a lock, a stream and a time-out object per request cost three quarters of a
core's capacity. So the caller writes to the socket itself, or adds to a buffer that is written in one piece for many
callers. One task reads, and wakes the task that an answer is for. Time-outs need no objects: ``expire`` looks through
the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import trio
from anyio.abc import TaskGroup

from rmqclient.parking import ParkingLot
from rmqclient.remoting.requests import OPAQUE_MASK
from rmqproto.errors import ConnectError, ProtocolError, RequestTimeoutError, RocketMQError, UsageError
from rmqproto.hosts import split_address
from rmqproto.wire.command import Command, FrameReader

RECEIVE_SIZE_BYTES = 256 * 1024
UNSENT_MAX_BYTES = 32 * 1024 * 1024
"""The most unsent data for a peer that does not read, before senders have to wait: two frames of the greatest size."""

BROKER_REQUESTS_MAX = 64
"""The most requests of the broker handled at once on a connection. More are dropped, and the broker times out."""

RequestHandler = Callable[["Channel", Command], Awaitable[None]]
"""Carries out a request of the broker, and answers it unless it is oneway. It raises only Cancelled."""


class TlsSocket:
    """A connection after its handshake; made by ``_secured``. It behaves like a plain non-blocking socket, as far as
    ``Channel`` needs it."""

    def __init__(self, connected: ssl.SSLSocket):
        self._connected = connected

    def fileno(self) -> int:
        return self._connected.fileno()

    def send(self, data: bytes | bytearray) -> int:
        """As ``socket.send``. After BlockingIOError the next call must begin with the same bytes."""
        try:
            return self._connected.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv(self, size_bytes: int) -> bytes:
        """As ``socket.recv``, but up to one record more than ``size_bytes``: no task would be woken for data that is
        already decrypted."""
        parts: list[bytes] = []
        try:
            while size_bytes > 0 or self._connected.pending():
                part = self._connected.recv(max(size_bytes, self._connected.pending()))
                if not part:
                    break
                parts.append(part)
                size_bytes -= len(part)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not parts:
                raise BlockingIOError from None
        return b"".join(parts)

    def close(self) -> None:
        self._connected.close()


class _Waiting:
    """One request under way: its answer, or the reason why none came, and the task that waits for it. An
    ``anyio.Event`` for each would cost a fourth of a send."""

    def __init__(self, deadline_s: float):
        self.deadline_s = deadline_s
        self.answer: Command | None = None
        self.failure: RocketMQError | None = None
        self._done = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Waits for ``wake``."""
        await self._done

    def wake(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


class _TrioWaiting(_Waiting):
    def __init__(self, deadline_s: float):
        self.deadline_s = deadline_s
        self.answer = None
        self.failure = None
        self._task: trio.lowlevel.Task | None = trio.lowlevel.current_task()

    async def wait(self) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self) -> None:
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None


class Channel:
    """``run`` must run in a task for anything else to work. It returns when either side closes the connection.
    Deadlines are times of ``anyio.current_time()``, in seconds."""

    def __init__(self, address: str, connected: socket.socket | TlsSocket, handle_request: RequestHandler):
        """``connected`` is non-blocking and ours from now on."""
        self.address = address
        self.closed_because: str | None = None
        self._socket = connected
        self._handle_request = handle_request
        self._waiting: dict[int, _Waiting] = {}
        self._opaque = 0
        self._new_waiting = _TrioWaiting if trio.lowlevel.in_trio_task() else _Waiting
        self._unsent = bytearray()
        self._senders_waiting = ParkingLot()
        self._flusher_waiting = ParkingLot()
        self._broker_requests = 0

    def next_opaque(self) -> int:
        self._opaque = self._opaque + 1 & OPAQUE_MASK
        return self._opaque

    async def request(self, frame: bytes, opaque: int, deadline_s: float) -> Command:
        """Sends ``frame``, whose opaque is ``opaque``, and returns its answer, whatever the code. ConnectError if the
        connection closes first, RequestTimeoutError after the deadline."""
        waiting = self._new_waiting(deadline_s)
        if len(self._unsent) > UNSENT_MAX_BYTES:
            await self._room(deadline_s)
        self._send(frame)
        self._waiting[opaque] = waiting
        try:
            await waiting.wait()
        finally:
            self._waiting.pop(opaque, None)
        if waiting.answer is None:
            assert waiting.failure is not None
            raise waiting.failure
        return waiting.answer

    async def oneway(self, frame: bytes, deadline_s: float) -> None:
        """Sends a frame that gets no answer. ConnectError, and RequestTimeoutError if there was no room for it."""
        await self._room(deadline_s)
        self._send(frame)

    def answer(self, frame: bytes) -> None:
        """Sends our answer to a request of the broker. It does nothing if the connection is closed."""
        if self.closed_because is None:
            self._send(frame)

    def expire(self, now_s: float) -> None:
        """Wakes the tasks whose deadline has passed."""
        late = [opaque for opaque, waiting in self._waiting.items() if waiting.deadline_s <= now_s]
        for opaque in late:
            self._fail(opaque, RequestTimeoutError(f"{self.address} did not answer in time"))

    def close(self, reason: str) -> None:
        """Makes waiting tasks raise ConnectError with ``reason``. Closing again does nothing."""
        if self.closed_because is not None:
            return
        self.closed_because = reason
        for opaque in list(self._waiting):
            self._fail(opaque, self._closed_error())
        self._senders_waiting.unpark_all()
        self._flusher_waiting.unpark_all()
        anyio.notify_closing(self._socket)
        self._socket.close()

    async def run(self) -> None:
        """Reads until the connection is closed, and closes it when cancelled."""
        try:
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(self._flush)
                await self._read(nursery)
                nursery.cancel_scope.cancel()
        finally:
            self.close("the client was closed")

    async def _read(self, nursery: TaskGroup) -> None:
        reader = FrameReader()
        while self.closed_because is None:
            try:
                await anyio.wait_readable(self._socket)
                data = self._socket.recv(RECEIVE_SIZE_BYTES)
                if not data:
                    self.close("the peer closed it")
                commands = reader.feed(data)
            except BlockingIOError:
                continue
            except (OSError, anyio.ClosedResourceError, ProtocolError) as error:
                self.close(str(error))
                return
            for command in commands:
                if command.is_answer:
                    self._wake(command)
                elif self._broker_requests < BROKER_REQUESTS_MAX:
                    self._broker_requests += 1
                    nursery.start_soon(self._handle, command)

    def _wake(self, answer: Command) -> None:
        waiting = self._waiting.pop(answer.opaque, None)
        if waiting is not None:  # otherwise it came too late
            waiting.answer = answer
            waiting.wake()

    async def _handle(self, command: Command) -> None:
        try:
            await self._handle_request(self, command)
        finally:
            self._broker_requests -= 1

    # --- writing -----------------------------------------------------------------------------------------------------

    def _send(self, frame: bytes) -> None:
        """Writes a frame at once if no other request is under way, for the shortest latency. Otherwise it leaves the
        frame to ``_flush``, which writes the frames of one round of the scheduler in one piece: with 64 tasks, a write
        for each would cost more than everything else. ConnectError."""
        if self.closed_because is not None:
            raise self._closed_error()
        sent = 0
        if not self._unsent and not self._waiting:
            try:
                sent = self._socket.send(frame)
            except BlockingIOError:
                pass
            except OSError as error:
                self.close(str(error))
                raise self._closed_error() from None
            if sent == len(frame):
                return
        self._unsent += memoryview(frame)[sent:]
        if self._flusher_waiting:
            self._flusher_waiting.unpark()

    async def _flush(self) -> None:
        while self.closed_because is None:
            if not self._unsent:
                await self._flusher_waiting.park()
                continue
            try:
                del self._unsent[: self._socket.send(self._unsent)]
                if self._unsent:
                    await anyio.wait_writable(self._socket)
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except (OSError, anyio.ClosedResourceError) as error:
                self.close(str(error))
            if len(self._unsent) <= UNSENT_MAX_BYTES // 2:
                self._senders_waiting.unpark_all()

    async def _room(self, deadline_s: float) -> None:
        """Waits until ``_unsent`` may grow. Always a checkpoint. RequestTimeoutError if there is no room in time;
        nothing was sent then."""
        await anyio.lowlevel.checkpoint()
        with anyio.CancelScope(deadline=deadline_s):
            while len(self._unsent) > UNSENT_MAX_BYTES and self.closed_because is None:
                await self._senders_waiting.park()
            return
        raise RequestTimeoutError(f"{self.address} does not read what is sent to it")

    # --- failures ----------------------------------------------------------------------------------------------------

    def _fail(self, opaque: int, failure: RocketMQError) -> None:
        waiting = self._waiting.pop(opaque)
        waiting.failure = failure
        waiting.wake()

    def _closed_error(self) -> ConnectError:
        return ConnectError(f"the connection to {self.address} was closed: {self.closed_because}", address=self.address)


async def open_socket(address: str, tls: ssl.SSLContext | None = None) -> socket.socket | TlsSocket:
    """A connected, non-blocking socket without Nagle's delay; with ``tls``, after its handshake. OSError, even for an
    invalid address, because addresses also come from servers. The caller limits the wait."""
    try:
        host, port = split_address(address)
    except UsageError as failure:
        raise OSError(str(failure)) from None
    error = OSError("no address found")
    for family, kind, protocol, _, target in await resolved(host, port, socket.SOCK_STREAM):
        fresh = socket.socket(family, kind, protocol)
        try:
            fresh.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                fresh.connect(target)
            await anyio.wait_writable(fresh)
            if failed := fresh.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(failed, os.strerror(failed))
            fresh.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return fresh if tls is None else await _secured(fresh, tls, host)
        except OSError as failure:
            fresh.close()
            error = failure
        except BaseException:
            fresh.close()
            raise
    raise error


async def _secured(connected: socket.socket, tls: ssl.SSLContext, host: str) -> TlsSocket:
    """A TLS socket after its handshake; the caller limits the wait. ``connected`` is non-blocking and belongs to this
    function from now on, even after an error. OSError."""
    fresh = tls.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
    try:
        while True:
            try:
                fresh.do_handshake()
                return TlsSocket(fresh)
            except ssl.SSLWantReadError:
                await anyio.wait_readable(fresh)
            except ssl.SSLWantWriteError:
                await anyio.wait_writable(fresh)
    except BaseException:
        fresh.close()
        raise


async def resolved(host: str, port: int, kind: socket.SocketKind) -> list[Any]:
    """As ``getaddrinfo``. A numeric address, as brokers have, needs no thread: a program that ends gets none."""
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    try:
        return list(socket.getaddrinfo(host, port, type=kind, flags=numeric))
    except socket.gaierror:
        return list(await anyio.getaddrinfo(host, port, type=kind))
