"""The hot loop: one trio task over one epoll set, for every listener and connection of the process.

A task for each request, or an await for each frame, costs 9 to 30 times as much (docs/performance.md). So one wake-up
reads every ready connection, handles all complete frames by plain calls, ends the round once for each service (one
append to the log), and then sends once for each connection. The loop knows which sockets are ready, which connections
have something to send, and how many bytes they hold. Only the connections know what the bytes mean.

Trio owns the task, its cancellation and everything that is not hot. Other tasks of the same run call the same objects.
All of this is one thread, so there are no locks. Trio gets its turn after BUDGET_S at the latest. Connections that were
ready but not served by then go first in the next turn, or a busy neighbour would starve them.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

import trio

from rmqserver.advertise import open_listener
from rmqserver.core import flush_dirty, serve_ready
from rmqserver.logs import Seldom
from rmqserver.remoting.connection import READING, Connection, plain_host
from rmqserver.remoting.connection_state import RESTS, State, mask
from rmqserver.remoting.counted_connection import CountedConnection
from rmqserver.remoting.pump import PLAIN, FirstBytePump, Pump, plain_pump
from rmqserver.remoting.service import Service

log = logging.getLogger(__name__)

BUDGET_S = 0.001
LINGER_S = 0.0001
"""How long the loop looks for the next request before it sleeps, if the last one came alone and about as quickly.
Waking a core takes as long as storing a message, so a client that sends one message at a time gets up to twice the rate
(docs/performance.md). An idle broker does not linger. Nor does a broker with many clients: their requests gather while
it sleeps."""

READ_SIZE_BYTES = 64 << 10
"""Bytes read at a time. Larger reads leave the processor's cache and starve other connections."""

HELD_TOTAL_MAX_BYTES = 256 << 20
"""Limit for the incomplete frames of all connections together. Past it, the connection that holds most is closed: a
peer that sends a small frame after others have filled the room is not to blame."""

UNSENT_TOTAL_MAX_BYTES = 256 << 20
"""Limit for the unread answers of all connections together. Past it, the connection with most of them is closed."""

REST_S = 0.02
"""How long a connection rests after a refusal because it wants too much. Its next refusal comes that much later, and
costs others nothing meanwhile. Apache's consumers wait as long after a 215."""

CONNECTIONS_MAX = 10_000
SWEEP_INTERVAL_S = 1.0
BACKLOG = 1024

HAS_CORES = len(os.sched_getaffinity(0)) > 1

_ACCEPT_PAUSE_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Out of descriptors or memory: accepting again at once would spin."""


class _Listener(NamedTuple):
    sock: socket.socket
    service: Service
    main_port: int
    """Our port in stored hosts."""
    make_pump: Callable[[], Pump]
    """Called for each connection."""


_Origin = tuple[str, str]
"""The name of a service, and the address of a peer."""


def _nobody(connection: Connection) -> bool:
    return False


class Loop:
    """Listeners and connections by descriptor. Make it, ``listen``, ``run`` it as a trio task, ``close`` at the end."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._counts: Counter[_Origin] = Counter()
        """Number of connections, by the service to which they first came and the peer's address."""
        self._origins: dict[int, _Origin] = {}
        self._seldom = Seldom()
        self._listeners: dict[int, _Listener] = {}
        self._watched: dict[int, Callable[[], None]] = {}
        self._dirty: list[Connection] = []
        self._services: list[Service] = []
        self._paused: Service | None = None
        self._goes_on: Callable[[Connection], bool] = _nobody
        """Whether a connection of the paused service is read all the same."""
        self._ready: list[tuple[int, int]] = []
        self._in_round = False
        self._lingers = False
        self._round_ended_s = 0.0
        self._stopped: list[Connection] = []
        """Connections whose further requests wait for the next turn, because their answers are large."""
        self._resting: list[Connection] = []
        self._has_resting = trio.Event()
        self._held_total_bytes = 0
        self._unsent_total_bytes = 0
        self._accepting = True
        self._buffer = memoryview(bytearray(READ_SIZE_BYTES))
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._posted: deque[Callable[[], None]] = deque()
        self.watch(self._wake_fd, self._run_posted)

    # --- set-up ------------------------------------------------------------------------------------------------------

    def listen(
        self,
        host: str,
        port: int,
        service: Service,
        *,
        make_pump: Callable[[], Pump] = plain_pump,
    ) -> int:
        """Opens a listener and returns its port; port 0 takes any free one. UsageError if the port is not available."""
        return self.accept_at(self.open(host, port), service, make_pump=make_pump)

    def open(self, host: str, port: int) -> socket.socket:
        """A listener for ``accept_at``, which the caller closes otherwise. UsageError as ``listen``."""
        hint = (
            "choose another --port (for the nameserver of a standalone --namesrv-port) or --listen, or port 0 for any "
            "free one"
        )
        return open_listener(host, port, BACKLOG, hint=hint)

    def accept_at(
        self,
        listener: socket.socket,
        service: Service,
        *,
        main_port: int | None = None,
        make_pump: Callable[[], Pump] = plain_pump,
    ) -> int:
        """Serves those who come to an open listener; its port. ``main_port`` is our port in stored hosts, if it is not
        this one (the fast listener stores the main port)."""
        listener.setblocking(False)
        bound = int(listener.getsockname()[1])
        self._listeners[listener.fileno()] = _Listener(listener, service, main_port or bound, make_pump)
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        if service not in self._services:
            self._services.append(service)
        return bound

    def watch(self, fd: int, callback: Callable[[], None], events: int = select.EPOLLIN) -> None:
        """Calls ``callback`` in the loop whenever ``fd`` is readable (an eventfd of a flush thread), or has
        ``events``."""
        self._watched[fd] = callback
        self._epoll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def post(self, callback: Callable[[], None]) -> None:
        """Has ``callback`` run in the loop. Any thread."""
        self._posted.append(callback)
        os.eventfd_write(self._wake_fd, 1)

    def wake(self) -> None:
        """Another task of this run calls it so that a round ends soon and sends what was appended or queued."""
        if not self._in_round:
            os.eventfd_write(self._wake_fd, 1)

    def pause(
        self,
        service: Service,
        stays: Callable[[Connection], bool],
        goes_on: Callable[[Connection], bool] = _nobody,
    ) -> None:
        """Stops reading for this service and accepting its peers, which wait until ``hand_over`` or ``resume``. Closes
        its connections except those that stay. Those that go on are read all the same."""
        self._paused, self._goes_on = service, goes_on
        self._accept_or_not()
        for connection in self.connections:
            if connection.service is not service:
                continue
            if not stays(connection):
                connection.close("the broker starts anew")
            else:
                self._watch(connection)
        self._ready = [each for each in self._ready if each[0] not in self._connections]  # epoll reports them again

    def resume(self, service: Service) -> None:
        """Ends its pause. Does nothing if it is not paused, as after ``hand_over``."""
        if self._paused is service:
            self._paused = None
            self._accept_or_not()
            self._read_again(service)

    def hand_over(self, before: Service, service: Service) -> None:
        """Gives the listeners and connections of one service, which is paused, to another."""
        self._paused = None
        self._services[self._services.index(before)] = service
        for fd, listener in self._listeners.items():
            if listener.service is before:
                self._listeners[fd] = listener._replace(service=service)
        self._accept_or_not()
        for connection in self.connections:
            if connection.service is before:
                connection.serve_by(service)
        self._read_again(service)

    def _read_again(self, service: Service) -> None:
        for connection in self.connections:
            if connection.service is service:
                self._watch(connection)

    @property
    def connections(self) -> list[Connection]:
        return list(self._connections.values())

    def stop_listening(self) -> None:
        for fd, listener in self._listeners.items():
            self._epoll.unregister(fd)
            listener.sock.close()
        self._listeners.clear()

    def close(self) -> None:
        """Tries once to send what is queued, then closes listeners, connections and the epoll set. Not while ``run`` is
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
            nursery.start_soon(self._end_rests)
            while True:
                if self._ready or self._stopped or self._lingers:
                    await trio.lowlevel.checkpoint()
                else:
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                self._turn(time.monotonic() + BUDGET_S)

    def _turn(self, ends_s: float) -> None:
        """Runs rounds until nothing was ready for LINGER_S or the time is up."""
        while (now_s := time.monotonic()) < ends_s:
            events = self._ready or self._epoll.poll(0)
            self._ready = []
            if self._stopped:
                stopped, self._stopped = self._stopped, []  # go on, if their peers have read everything
                events = events + [(each.fd, select.EPOLLIN) for each in stopped if each.state is State.STOPPED]
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

    def _round(self, events: list[tuple[int, int]], ends_s: float) -> None:
        connections, buffer, done, count = self._connections, self._buffer, 0, len(events)
        while (done := serve_ready(events, done, connections, READING, PLAIN, buffer, ends_s)) < count:
            if done and time.monotonic() > ends_s:
                break
            fd, done = events[done][0], done + 1
            if fd in self._watched:
                self._watched[fd]()
            elif fd in self._listeners:
                self._accept(fd)
        self._ready = events[done:]
        for service in self._services:
            service.end_round()
        self._flush_dirty()

    def _flush_dirty(self) -> None:
        while self._dirty:  # closing a broken connection may make others dirty, because its group is notified
            dirty, self._dirty = self._dirty, []
            flush_dirty(dirty, READING, PLAIN)

    def _accept(self, fd: int) -> None:
        listener = self._listeners[fd]
        try:
            sock, peer = listener.sock.accept()
        except OSError as error:
            if error.errno in _ACCEPT_PAUSE_ERRNOS:
                log.warning("event=accept-paused reason=%r", str(error))
                self._accepting = False
                self._accept_or_not()
            return
        if not self._has_room(listener.service, plain_host(peer[0])):
            sock.close()
            return
        try:
            pump = listener.make_pump()
            connection = self.adopt(sock, listener.service, listener.main_port, pump)
            if isinstance(pump, FirstBytePump):
                pump.change = connection.change_pump
            connection.may_be_behind_balancer()
        except OSError:  # gone between connecting and now
            sock.close()

    def _has_room(self, service: Service, host: str) -> bool:
        if len(self._connections) >= CONNECTIONS_MAX:
            if self._seldom.is_due(""):
                log.warning("event=refused reason=connections max=%d", CONNECTIONS_MAX)
            return False
        most = service.limits.max_connections_per_address
        if 0 < most <= self._counts[service.name, host]:
            if self._seldom.is_due(host):
                log.warning(
                    "event=refused service=%s peer=%s reason=maxConnectionsPerAddress max=%d", service.name, host, most
                )
            return False
        return True

    def adopt(self, sock: socket.socket, service: Service, local_port: int = 0, pump: Pump = PLAIN) -> Connection:
        """Serves a connected socket, even one that we opened (to a nameserver). The loop closes it. OSError if the peer
        is already gone, or the system watches no more; then the caller closes it."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind = CountedConnection if service.limits.max_requests_in_flight_per_connection else Connection
        connection = kind(sock, self, service, local_port, pump)
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._connections[sock.fileno()] = connection
        origin = self._origins[sock.fileno()] = service.name, connection.address.rpartition(":")[0]
        self._counts[origin] += 1
        if pump.wants_to_write:
            self.mark_dirty(connection)
        return connection

    def _accept_or_not(self) -> None:
        for fd, listener in self._listeners.items():
            accepts = self._accepting and listener.service is not self._paused
            self._epoll.modify(fd, select.EPOLLIN if accepts else 0)

    # --- what connections ask of it ----------------------------------------------------------------------------------

    def mark_dirty(self, connection: Connection) -> None:
        self._dirty.append(connection)
        if not self._in_round:
            self.wake()

    def state_changed(self, connection: Connection, before: State) -> None:
        after = connection.state
        if mask(before, is_paused=False) != mask(after, is_paused=False):
            self._watch(connection)
        if after is State.STOPPED:
            self._stopped.append(connection)
        elif after in RESTS and before not in RESTS:
            self._resting.append(connection)
            self._has_resting.set()

    def _watch(self, connection: Connection) -> None:
        is_paused = connection.service is self._paused and not self._goes_on(connection)
        self._epoll.modify(connection.sock.fileno(), mask(connection.state, is_paused=is_paused))

    def held_changed(self, by_bytes: int) -> None:
        self._held_total_bytes += by_bytes
        if self._held_total_bytes > HELD_TOTAL_MAX_BYTES:
            largest = max(self.connections, key=lambda each: each.held_bytes)
            largest.close(f"incomplete frames hold more than {HELD_TOTAL_MAX_BYTES} bytes, and its is the largest")

    def unsent_changed(self, by_bytes: int) -> None:
        self._unsent_total_bytes += by_bytes
        if self._unsent_total_bytes > UNSENT_TOTAL_MAX_BYTES:
            largest = max(self.connections, key=lambda each: len(each.unsent) + each.waiting_bytes)
            largest.close(f"answers of more than {UNSENT_TOTAL_MAX_BYTES} bytes are not read, and most are its own")

    def drop(self, connection: Connection) -> None:
        fd = connection.sock.fileno()
        del self._connections[fd]
        origin = self._origins.pop(fd)
        self._counts[origin] -= 1
        if not self._counts[origin]:
            del self._counts[origin]
        self._held_total_bytes -= connection.held_bytes
        self._unsent_total_bytes -= len(connection.unsent) + connection.waiting_bytes
        self._epoll.unregister(fd)
        connection.sock.close()

    # --- seldom ------------------------------------------------------------------------------------------------------

    def _run_posted(self) -> None:
        os.eventfd_read(self._wake_fd)
        while self._posted:
            self._posted.popleft()()

    async def _end_rests(self) -> None:
        while True:
            await self._has_resting.wait()
            await trio.sleep(REST_S)
            self._has_resting = trio.Event()
            rested, self._resting = self._resting, []
            for connection in rested:
                connection.end_rest()
            self.wake()

    async def _sweep(self) -> None:
        """Handles late answers and idle connections, and accepts again after a pause."""
        while True:
            await trio.sleep(SWEEP_INTERVAL_S)
            now_s = time.monotonic()
            for connection in self.connections:
                connection.expire(now_s)
                idle_max_s = connection.service.idle_max_s
                if idle_max_s and not connection.closed and now_s - connection.last_active_s > idle_max_s:
                    connection.close(f"idle for {idle_max_s} s")
            if not self._accepting:
                self._accepting = True
                self._accept_or_not()
