"""One client's connection: its socket, the frames that come in and go out, and our requests to the client.

Only the loop's thread uses it. Sockets never block. Bytes that a peer does not read are kept up to a limit; long before
that limit, no further request of that peer is handled.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

from rmqproto.codes import ONEWAY_FLAG
from rmqproto.errors import OtherProtocolError, ProtocolError
from rmqproto.headers.base import Header, to_ext
from rmqproto.message.record import host_bytes
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.frames import OnFrame
from rmqserver.core import FrameCutter
from rmqserver.remoting.connection_state import CHANGES, HOLDS, UNREADS, ConnectionLimits, Event, State
from rmqserver.remoting.pump import PLAIN, ProxyPump, Pump, PumpError

log = logging.getLogger(__name__)

QUEUED_MAX_BYTES = 1 << 20
"""Bytes of answers in one turn; past it, the rest of a peer's requests waits. 64 KiB of requests can ask for more than
100 MiB."""

COUNTED_FRAME_MIN_BYTES = 4 << 10
"""Smaller answers are not counted: those to one read of the smallest requests come to 4 MiB at most."""

REQUESTS_TO_CLIENT_MAX = 256
"""Our open requests on one connection. Further ones are answered with None at once."""

# record type u8: 21 alert | version 3.3 | length u16: 2 | level u8: 2 fatal | description u8: 40 handshake_failure
TLS_ALERT = bytes((21, 3, 3, 0, 2, 2, 40))

_HTTP_TEXT = (
    b"This port speaks RocketMQ's remoting protocol, not HTTP.\n"
    b"/metrics, /healthz and /readyz are on the port that rmqserver --metrics-port opens.\n"
)
HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
    % (len(_HTTP_TEXT), _HTTP_TEXT)
)
_FAREWELLS = {"TLS": TLS_ALERT, "HTTP": HTTP_ANSWER}
"""Answers that a peer of another protocol understands."""

_NO_MORE = FrameCutter(lambda *frame: None, None, [])
"""In place of the cutter of a closed connection, which knows the connection."""
_NO_MORE.close()

READING, STOPPED, CLOSED = State.READING, State.STOPPED, State.CLOSED
"""A member looked up by name costs four times as much as a global."""

OnAnswer = Callable[[Command | None], None]


class ConnectionLoop(Protocol):
    """What a connection needs of its loop."""

    def mark_dirty(self, connection: Connection) -> None:
        """``flush`` must be called at the end of the round."""

    def state_changed(self, connection: Connection, before: State) -> None:
        """Its events are those of ``mask``. In STOPPED, ``serve`` must be called in the next turn, even if nothing more
        has come; a rest must be ended by ``end_rest``."""

    def held_changed(self, by_bytes: int) -> None:
        """The bytes held of incomplete frames changed by ``by_bytes``."""

    def unsent_changed(self, by_bytes: int) -> None:
        """The bytes that peers have not read changed by ``by_bytes``."""

    def drop(self, connection: Connection) -> None:
        """Closes the socket and forgets the connection."""


class Cutter(Protocol):
    """What a connection needs of whoever makes something of its bytes: a ``FrameCutter``, or another door."""

    is_stopped: bool

    @property
    def held_bytes(self) -> int: ...

    def feed_untrusted(self, data: bytes) -> None: ...

    def hand_to(self, on_frame: OnFrame, takers: list[Any]) -> None: ...

    def close(self) -> None: ...


class FrameHandler(Protocol):
    """What a connection and the loop need of the service. A connection is closed if nothing has come for
    ``idle_max_s``; 0 for never. ``takers`` may take frames before ``handle_untrusted`` gets them."""

    name: str
    idle_max_s: int
    limits: ConnectionLimits
    takers: list[Any]

    def handle_untrusted(self, connection: Connection, codec: int, peeked: int, header: bytes, body: bytes) -> None: ...

    def other_door(self, connection: Connection, protocol: str) -> Cutter | None: ...

    def turned_away(self, connection: Connection, protocol: str, reason: str | None = None) -> None: ...

    def connection_closed(self, connection: Connection) -> None: ...


class Connection:
    """Hosts are record host fields: ``born_host`` is the peer's, ``local_host`` is the address on which it reached us,
    with the listener's port. ``address`` is the client's, behind a load balancer the one that it names. What the
    client may do is decided by ``real_address``, the other end of the socket."""

    __slots__ = (
        "_loop", "_next_opaque", "_requests", "address", "born_host", "cutter", "fd", "held_bytes", "last_active_s",
        "local_addr", "local_host", "out", "pump", "queued_bytes", "real_address", "service", "sock", "state", "unsent",
        "waiting_bytes",
    )  # fmt: skip

    def __init__(
        self, sock: socket.socket, loop: ConnectionLoop, service: FrameHandler, local_port: int, pump: Pump = PLAIN
    ):
        peer_host, peer_port = sock.getpeername()[:2]
        local_host = plain_host(sock.getsockname()[0])
        self.sock = sock
        self.fd = sock.fileno()
        self.address = self.real_address = f"{plain_host(peer_host)}:{peer_port}"
        self.born_host = host_bytes(peer_host, peer_port)
        self.local_addr = f"{local_host}:{local_port}"
        self.local_host = host_bytes(local_host, local_port)
        self.held_bytes = 0
        """Bytes of incomplete frames, as reported to the loop."""
        self.out: list[bytes] = []
        self.unsent = bytearray()
        self.waiting_bytes = 0
        """Bytes of answers that another door keeps until the peer takes them, beside ``unsent``."""
        self.state = READING
        self.last_active_s = time.monotonic()
        self.service = service
        self._loop = loop
        self.pump = pump
        self.cutter: Cutter = FrameCutter(service.handle_untrusted, self, service.takers)
        self._requests: dict[int, tuple[float, OnAnswer]] = {}
        self._next_opaque = 0
        self.queued_bytes = 0

    def may_be_behind_balancer(self) -> None:
        """To be called before the first read: a PROXY header may come first."""
        pump = self.pump

        def on_through(source: str | None) -> None:
            self.pump = pump
            self.address = source or self.address

        self.pump = ProxyPump(pump, on_through)

    def change_pump(self, pump: Pump, data: bytes) -> None:
        """Goes on with another pump, which first gets ``data``. Does nothing on a closed connection."""
        if self.closed:
            return
        self.pump = pump
        try:
            self.cutter.feed_untrusted(pump.received(memoryview(data)))
        except Exception as error:
            self.fail(error)
        self.settle()

    def go_through(self, door: Cutter, data: bytes) -> None:
        """Goes on through another door, which first gets ``data``. Does nothing on a closed connection."""
        if self.closed:
            return
        self.cutter.close()
        self.cutter = door
        try:
            door.feed_untrusted(data)
        except Exception as error:
            self.fail(error)
        self.settle()

    @property
    def closed(self) -> bool:
        return self.state is CLOSED

    @property
    def may_wait(self) -> bool:
        """Whether the loop can leave it alone until the peer sends something."""
        return self.state is READING

    def has_peer_left(self) -> bool:
        """Whether the peer has closed its end, though bytes that it sent before are still to be read: what it is sent
        now is lost. A call to the kernel."""
        if self.closed:
            return True
        ends = select.poll()
        ends.register(self.sock, select.POLLRDHUP)
        return bool(ends.poll(0))

    def _become(self, event: Event) -> None:
        before = self.state
        self.state = after = CHANGES[before][event]
        if after is not before:
            if after in HOLDS:
                self.cutter.is_stopped = True
            self._loop.state_changed(self, before)

    def serve_by(self, service: FrameHandler) -> None:
        """Changes the service from the next frame on, of which a part may have come. A connection that may hold whole
        frames is closed: they were meant for the previous service."""
        if self.state in HOLDS:
            self.close("its service goes")
            return
        self.service = service
        self.cutter.hand_to(service.handle_untrusted, service.takers)

    # --- bytes in ----------------------------------------------------------------------------------------------------

    def serve(self, is_writable: bool, buffer: memoryview) -> None:
        """The socket is ready: reads once, into the loop's ``buffer``, and handles the complete frames. Errors of the
        socket, bytes that are not frames, and our own mistakes end only this connection."""
        cutter = self.cutter
        try:
            if self.state is not READING:
                if self.state is not STOPPED:
                    if is_writable and self.state in UNREADS:
                        self._flush_rest()
                    return
                self._become(Event.GO_ON)  # its held frames come before the bytes in the socket
                cutter.feed_untrusted(b"")
            else:
                got = self.sock.recv_into(buffer)
                if not got:
                    self.close("closed by the peer" + (" in the middle of a frame" if self.held_bytes else ""))
                    return
                cutter.feed_untrusted(self.pump.received(buffer[:got]))
        except BlockingIOError:
            return
        except Exception as error:
            self.fail(error)
        if cutter.held_bytes != self.held_bytes or self.pump.wants_to_write:
            self.settle()

    def settle(self) -> None:
        """Tells the loop what is left to do, and how many bytes are kept."""
        if self.closed:
            return
        cutter = self.cutter
        added_bytes, self.held_bytes = cutter.held_bytes - self.held_bytes, cutter.held_bytes
        self._loop.held_changed(added_bytes)
        most_bytes = self.service.limits.max_received_bytes_per_connection
        if 0 < most_bytes < self.held_bytes:
            self.close(f"requests of more than {most_bytes} bytes wait (maxReceivedBytesPerConnection)")
            return
        if self.pump.wants_to_write and not self.out:
            self._loop.mark_dirty(self)

    def fail(self, error: Exception) -> None:
        if isinstance(error, OtherProtocolError):
            door = self.service.other_door(self, error.protocol)
            if door is not None:
                self.go_through(door, error.data)
                return
            farewell = _FAREWELLS.get(error.protocol)
            if farewell is not None:
                with contextlib.suppress(OSError):
                    self.sock.send(self.pump.to_send([farewell]))
            self.service.turned_away(self, error.protocol)
            self.close(f"protocol error: {error}")
        elif isinstance(error, PumpError):
            with contextlib.suppress(OSError):
                self.sock.send(self.pump.to_send(()))
            self.service.turned_away(self, error.protocol, str(error))
            self.close(str(error))
        elif isinstance(error, ProtocolError):
            self.close(f"protocol error: {error}")
        elif isinstance(error, OSError):
            self.close(str(error))
        else:  # our own mistake, which must not end the service for others
            log.error("event=failed service=%s peer=%s", self.service.name, self.address, exc_info=error)
            self.close("an error of the server")

    # --- bytes out ---------------------------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Queues a frame; it leaves at the end of the round. Does nothing on a closed connection."""
        if self.state is CLOSED:
            return
        if not self.out:
            self._loop.mark_dirty(self)
        self.out.append(frame)
        if len(frame) >= COUNTED_FRAME_MIN_BYTES:
            self.queued_bytes += len(frame)
            if self.queued_bytes > QUEUED_MAX_BYTES:
                self._become(Event.STOP)
                self.flush()

    put_out = send
    """Sends bytes that a subclass does not count as an answer: others than those of the remoting protocol, and answers
    to what no gate has let in."""

    def stop(self) -> None:
        """Call it while bytes are handled: what the cutter holds of them comes in the next turn."""
        self._become(Event.STOP)

    def rest(self) -> None:
        """Call it while a request is handled: further requests, held or still to be read, wait a moment."""
        self._become(Event.REST)

    def end_rest(self) -> None:
        self._become(Event.REST_ENDED)

    def flush(self, sent_bytes: int = 0) -> None:
        """Writes the queued bytes in one call to the kernel; keeps the rest until the peer reads. It has taken
        ``sent_bytes`` of them already."""
        if self.state is CLOSED or not (self.out or self.pump.wants_to_write):
            return
        data = self.pump.to_send(self.out)[sent_bytes:]
        self.out.clear()
        self.queued_bytes = 0
        if self.unsent:
            self._keep_unsent(data)
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close(str(error))
            return
        if sent < len(data):
            self._become(Event.BLOCKED)
            self._keep_unsent(data[sent:])

    def _keep_unsent(self, data: bytes) -> None:
        self.unsent += data
        self._loop.unsent_changed(len(data))
        if len(self.unsent) > self.service.limits.max_unread_bytes_per_connection:
            self.close(f"the peer does not read: {len(self.unsent)} bytes unsent")

    def keeps(self, waiting_bytes: int) -> None:
        """Another door says how many bytes of answers it keeps: they count as those that the peer does not read."""
        if self.closed or waiting_bytes == self.waiting_bytes:
            return
        added_bytes, self.waiting_bytes = waiting_bytes - self.waiting_bytes, waiting_bytes
        self._loop.unsent_changed(added_bytes)
        if waiting_bytes > self.service.limits.max_unread_bytes_per_connection:
            self.close(f"the peer does not read: {waiting_bytes} bytes wait for its windows")

    def _flush_rest(self) -> None:
        """The peer reads again: writes what was kept."""
        try:
            sent = self.sock.send(self.unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        del self.unsent[:sent]
        self._loop.unsent_changed(-sent)
        if not self.unsent:
            self._become(Event.DRAINED)

    def close(self, reason: str) -> None:
        """Closes the connection; another call does nothing. Our open requests end with None."""
        if self.closed:
            return
        self.state = CLOSED
        self.pump = PLAIN  # one that still waits for a PROXY header knows this connection
        self.out.clear()
        self._loop.drop(self)
        log.debug("event=closed service=%s peer=%s reason=%r", self.service.name, self.address, reason)
        self.unsent = bytearray()
        self.cutter.close()
        self.cutter = _NO_MORE
        self.service.connection_closed(self)
        requests, self._requests = self._requests, {}
        for _deadline, on_answer in requests.values():
            on_answer(None)

    # --- requests of ours --------------------------------------------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        return not self.closed

    def notify(self, code: int, header: Header, body: bytes = b"") -> None:
        """Sends a oneway request to the client."""
        self._next_opaque += 1
        command = Command(code=code, opaque=self._next_opaque, flag=ONEWAY_FLAG, ext=to_ext(header), body=body)
        self.put_out(encode_frame(command))

    def ask(
        self, code: int, header: Header | dict[str, str], body: bytes, on_answer: OnAnswer, timeout_s: float
    ) -> None:
        """Sends a request to the peer. ``header`` may be its ext fields, if they are signed. ``on_answer`` gets the
        answer, or None if it is late, if the connection ends, or if too many requests are open on it."""
        if self.closed or len(self._requests) >= REQUESTS_TO_CLIENT_MAX:
            on_answer(None)
            return
        ext = header if isinstance(header, dict) else to_ext(header)
        self.ask_as(Command(code=code, ext=ext, body=body), on_answer, timeout_s)

    def ask_as(self, command: Command, on_answer: OnAnswer, timeout_s: float) -> None:
        """As ``ask``, but with no limit on open requests; the opaque is replaced by ours. A oneway request gets
        None at once."""
        if self.closed:
            on_answer(None)
            return
        self._next_opaque += 1
        command.opaque = self._next_opaque
        self.put_out(encode_frame(command))
        if command.is_oneway:
            on_answer(None)
        else:
            self._requests[command.opaque] = (time.monotonic() + timeout_s, on_answer)

    def answered(self, answer: Command) -> None:
        """Takes an answer. Ignores one that nothing waits for (clients also answer notifications)."""
        waiting = self._requests.pop(answer.opaque, None)
        if waiting is not None:
            waiting[1](answer)

    def expire(self, now_s: float) -> None:
        """Ends a handshake and requests of ours that take too long."""
        if now_s > self.pump.opens_by_s:
            self.close("the handshake took too long")
        late = [opaque for opaque, (deadline_s, _) in self._requests.items() if deadline_s <= now_s]
        for opaque in late:
            self._requests.pop(opaque)[1](None)


def plain_host(host: str) -> str:
    """An address without zone; IPv4 if it is IPv4 mapped into IPv6."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
