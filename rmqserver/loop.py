"""The hot loop: one trio task over one epoll set, for every listener and connection of the process.

A task for each request, or an await for each frame, costs 9 to 30 times as much (docs/performance.md). So one wake-up
reads every ready connection, handles all complete frames by plain calls, ends the round once for each service (one
append to the log), and then sends once for each connection. Trio owns the task, its cancellation and everything that is
not hot: other tasks of the same run call into the same objects, and since all is one thread there are no locks.

At most BUDGET_S passes before trio has its turn; connections that were ready and not yet served go first afterwards,
or a busy neighbour would starve them.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable

import trio

from rmqproto.command import HEAD_SIZE_BYTES, check_head_untrusted
from rmqproto.errors import ProtocolError, UsageError
from rmqserver.connection import Connection
from rmqserver.dispatch import Service

log = logging.getLogger(__name__)

BUDGET_S = 0.001
LINGER_S = 0.0001
"""So long the loop looks for the next request before it sleeps, when the last one came alone and about so soon: to wake
a core takes as long as to store a message. A client that sends one message after the other gets up to twice the rate
(docs/performance.md). An idle or a quiet broker does not linger, nor does one with many clients: their requests gather
while it sleeps."""

READ_SIZE_BYTES = 64 << 10
"""One read. Larger ones leave the processor's cache and starve the others."""

PARTIAL_TOTAL_MAX_BYTES = 256 << 20
"""Incomplete frames of all connections together; past it, the connection that holds most is closed: whoever comes with
a small frame when others have filled it up is not to blame."""

UNSENT_TOTAL_MAX_BYTES = 256 << 20
"""Answers of all connections that are not read; past it, the connection with most of them is closed."""

CONNECTIONS_MAX = 10_000
IDLE_MAX_S = 120.0
"""Apache's serverChannelMaxIdleTimeSeconds."""
SWEEP_INTERVAL_S = 1.0
BACKLOG = 1024

HAS_CORES = len(os.sched_getaffinity(0)) > 1

_ACCEPT_PAUSE_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Out of descriptors or memory: accepting again at once would spin."""


class Loop:
    """Listeners and connections by descriptor. Make it, ``listen``, ``run`` it as a trio task, ``close`` at the end."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._connections: dict[int, tuple[Connection, Service]] = {}
        self._listeners: dict[int, tuple[socket.socket, Service, int]] = {}
        self._watched: dict[int, Callable[[], None]] = {}
        self._dirty: list[Connection] = []
        self._services: list[Service] = []
        self._ready: list[tuple[int, int]] = []
        self._in_round = False
        self._lingers = False
        self._round_ended_s = 0.0
        self._stopped: list[Connection] = []
        """Connections with requests that waited for the end of a turn, because their answers are large."""
        self._partial_total_bytes = 0
        self._unsent_total_bytes = 0
        self._accepting = True
        self._buffer = bytearray(2 * READ_SIZE_BYTES)
        self._view = memoryview(self._buffer)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._posted: deque[Callable[[], None]] = deque()
        self.watch(self._wake_fd, self._run_posted)

    # --- set-up ------------------------------------------------------------------------------------------------------

    def listen(self, host: str, port: int, service: Service, *, main_port: int | None = None) -> int:
        """Opens a listener; port 0 takes any free one. Returns the port. UsageError where it cannot be had.

        ``main_port`` is what its connections say of us in stored hosts (the fast listener's are the main one's).
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="choose another --port or --listen, or port 0 for any free one",
            ) from None
        listener.setblocking(False)
        bound = int(listener.getsockname()[1])
        self._listeners[listener.fileno()] = (listener, service, main_port or bound)
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        if service not in self._services:
            self._services.append(service)
        return bound

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Calls ``callback`` in the loop when ``fd`` is readable (an eventfd of a flush thread)."""
        self._watched[fd] = callback
        self._epoll.register(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def post(self, callback: Callable[[], None]) -> None:
        """From any thread: ``callback`` runs in the loop."""
        self._posted.append(callback)
        os.eventfd_write(self._wake_fd, 1)

    def wake(self) -> None:
        """From another task of this run: ends a round soon, so that what was appended or queued goes out."""
        if not self._in_round:
            os.eventfd_write(self._wake_fd, 1)

    @property
    def connections(self) -> list[Connection]:
        return [connection for connection, _ in self._connections.values()]

    def stop_listening(self) -> None:
        for fd, (listener, _, _) in self._listeners.items():
            self._epoll.unregister(fd)
            listener.close()
        self._listeners.clear()

    def close(self) -> None:
        """Closes listeners, connections and the epoll set, after one try to send what is queued. Not while ``run`` is
        running."""
        self.stop_listening()
        self._flush_dirty()
        for connection in self.connections:
            connection.close("the server stops")
        self._epoll.close()
        os.close(self._wake_fd)

    # --- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serves until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sweep)
            while True:
                if self._ready or self._stopped or self._lingers:
                    await trio.lowlevel.checkpoint()
                else:
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                self._turn(time.monotonic() + BUDGET_S)

    def _turn(self, ends_s: float) -> None:
        """Rounds until nothing is ready, and none was for LINGER_S, or the time is up."""
        while (now_s := time.monotonic()) < ends_s:
            events = self._ready or self._epoll.poll(0)
            self._ready = []
            if self._stopped:
                events = events + self._go_on()
            if not events:
                if not self._lingers or now_s > self._round_ended_s + LINGER_S:
                    self._lingers = False
                    return
                for service in self._services:
                    service.idle()
                os.sched_yield()  # the client may have no other core to run on
                continue
            is_next_soon = now_s < self._round_ended_s + 2 * LINGER_S
            self._in_round = True
            try:
                self._round(events, ends_s)
            finally:
                self._in_round = False
                self._round_ended_s = time.monotonic()
                self._lingers = is_next_soon and len(events) == 1 and HAS_CORES

    def _go_on(self) -> list[tuple[int, int]]:
        """Events for connections that had to stop and whose peers took all that was there; the others come back when
        they can be written to."""
        stopped, self._stopped = self._stopped, []
        return [(each.sock.fileno(), select.EPOLLIN) for each in stopped if not each.closed and not each.unsent]

    def _round(self, events: list[tuple[int, int]], ends_s: float) -> None:
        clock, connections = time.monotonic, self._connections
        now_s = clock()
        for done, (fd, what) in enumerate(events, 1):
            found = connections.get(fd)
            if found is not None:
                connection, service = found
                connection.last_active_s = now_s
                self._serve(what, connection, service)
            elif fd in self._watched:
                self._watched[fd]()
            elif fd in self._listeners:
                self._accept(fd)
            now_s = clock()
            if now_s > ends_s:
                self._ready = events[done:]
                break
        for service in self._services:
            service.end_round()
        self._flush_dirty()

    def _flush_dirty(self) -> None:
        while self._dirty:  # a connection that breaks may make others dirty: its group is told
            dirty, self._dirty = self._dirty, []
            for connection in dirty:
                connection.flush()

    def _accept(self, fd: int) -> None:
        listener, service, main_port = self._listeners[fd]
        try:
            sock, _ = listener.accept()
        except OSError as error:
            if error.errno in _ACCEPT_PAUSE_ERRNOS:
                self._pause_accepting(str(error))
            return
        if len(self._connections) >= CONNECTIONS_MAX:
            log.warning("event=refused reason=connections max=%d", CONNECTIONS_MAX)
            sock.close()
            return
        try:
            self.adopt(sock, service, main_port)
        except OSError:  # gone between connecting and now
            sock.close()

    def adopt(self, sock: socket.socket, service: Service, local_port: int = 0) -> Connection:
        """Serves a connected socket, one that we opened (to a nameserver) too; the loop closes it. OSError where the
        peer is gone already; the caller then closes it."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock, self, local_port)
        self._connections[sock.fileno()] = (connection, service)
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        return connection

    def _pause_accepting(self, reason: str) -> None:
        log.warning("event=accept-paused reason=%r", reason)
        self._accepting = False
        for fd in self._listeners:
            self._epoll.modify(fd, 0)

    def _serve(self, what: int, connection: Connection, service: Service) -> None:
        if connection.unsent:  # nothing more is read from a peer that does not read its answers
            if what & (select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR):
                connection.flush_rest()
            if connection.unsent or connection.closed or not connection.partial:
                return
        try:
            if connection.partial:
                self._read_on(connection, service)
                return
            got = connection.sock.recv_into(self._buffer, READ_SIZE_BYTES)
            if not got:
                connection.close("closed by the peer")
                return
            connection.is_stopped = False
            # A copy, for to cut frames out of bytes costs a third of cutting them out of a view.
            data = self._view[:got].tobytes()
            used = service.process_untrusted(connection, data)
            if used < got or connection.is_stopped:
                self._leave(connection, data[used:])
        except BlockingIOError:
            pass
        except OSError as error:
            connection.close(str(error))
        except ProtocolError as error:
            connection.close(f"protocol error: {error}")
        except Exception:  # a mistake of ours; it must not end the service of all others
            log.exception("event=failed service=%s peer=%s", service.name, connection.peer)
            connection.close("an error of the server")

    def _read_on(self, connection: Connection, service: Service) -> None:
        """More of a frame that came in pieces. Handled when it is whole, and not looked at before."""
        if len(connection.partial) < connection.wanted_bytes:
            got = connection.sock.recv_into(self._buffer, READ_SIZE_BYTES)
            if not got:
                connection.close("closed by the peer in the middle of a frame")
                return
            self._keep(connection, self._view[:got])
            if connection.closed or len(connection.partial) < connection.wanted_bytes:
                return
        data, connection.partial = bytes(connection.partial), bytearray()
        self._partial_total_bytes -= len(data)
        connection.is_stopped = False
        used = service.process_untrusted(connection, data)
        self._leave(connection, data[used:])

    def _leave(self, connection: Connection, rest: bytes) -> None:
        """What is not handled: the beginning of a frame, or whole ones of a connection that had to stop."""
        if rest and not connection.closed:
            self._keep(connection, rest)
        if connection.is_stopped:
            self._stopped.append(connection)

    def _keep(self, connection: Connection, rest: bytes | memoryview) -> None:
        connection.partial += rest
        self._partial_total_bytes += len(rest)
        if len(connection.partial) >= HEAD_SIZE_BYTES:
            total = int.from_bytes(connection.partial[:4], "big")
            check_head_untrusted(total, int.from_bytes(connection.partial[5:8], "big"))
            connection.wanted_bytes = 4 + total
        else:
            connection.wanted_bytes = HEAD_SIZE_BYTES
        if self._partial_total_bytes > PARTIAL_TOTAL_MAX_BYTES:
            largest = max(self.connections, key=lambda each: len(each.partial))
            largest.close(f"incomplete frames hold more than {PARTIAL_TOTAL_MAX_BYTES} bytes, and its is the largest")

    # --- what connections ask of it ----------------------------------------------------------------------------------

    def mark_dirty(self, connection: Connection) -> None:
        self._dirty.append(connection)
        self.wake()

    def wait_writable(self, connection: Connection, wanted: bool) -> None:
        self._epoll.modify(connection.sock.fileno(), select.EPOLLOUT if wanted else select.EPOLLIN)

    def unsent_changed(self, by_bytes: int) -> None:
        """By so many bytes there is more, or less, that peers have not read."""
        self._unsent_total_bytes += by_bytes
        if self._unsent_total_bytes > UNSENT_TOTAL_MAX_BYTES:
            largest = max(self.connections, key=lambda each: len(each.unsent))
            largest.close(f"answers of more than {UNSENT_TOTAL_MAX_BYTES} bytes are not read, and most are its own")

    def drop(self, connection: Connection, reason: str) -> None:
        fd = connection.sock.fileno()
        _, service = self._connections.pop(fd)
        self._partial_total_bytes -= len(connection.partial)
        self._unsent_total_bytes -= len(connection.unsent)
        connection.partial, connection.unsent = bytearray(), bytearray()
        self._epoll.unregister(fd)
        connection.sock.close()
        log.debug("event=closed service=%s peer=%s reason=%r", service.name, connection.peer, reason)
        service.connection_closed(connection)

    # --- seldom ------------------------------------------------------------------------------------------------------

    def _run_posted(self) -> None:
        os.eventfd_read(self._wake_fd)
        while self._posted:
            self._posted.popleft()()

    async def _sweep(self) -> None:
        """Late answers, idle connections, and accepting again after a pause."""
        while True:
            await trio.sleep(SWEEP_INTERVAL_S)
            now_s = time.monotonic()
            for connection in self.connections:
                connection.expire_requests(now_s)
                if now_s - connection.last_active_s > IDLE_MAX_S:
                    connection.close(f"idle for {IDLE_MAX_S:.0f} s")
            if not self._accepting:
                self._accepting = True
                for fd in self._listeners:
                    self._epoll.modify(fd, select.EPOLLIN)
