"""One client's connection: what came and is not complete, what goes out, and the requests that we have put to it.

All of it is used from the loop's thread alone. Sockets never block. What a peer does not read is kept up to a limit,
and long before it no further request of that peer is handled.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import time
from collections.abc import Callable
from typing import Protocol

from rmqproto.codes import ONEWAY_FLAG
from rmqproto.command import Command, encode_frame
from rmqproto.headers import Header, to_ext
from rmqproto.record import host_bytes

log = logging.getLogger(__name__)

UNSENT_MAX_BYTES = 64 << 20
"""Answers that a peer does not read are kept so far; then the connection is closed. Four frames of the largest size."""

QUEUED_MAX_BYTES = 1 << 20
"""With more answers than this in one turn, the rest of a peer's requests has to wait: 64 KiB of them can ask for more
than 100 MiB."""

COUNTED_FRAME_MIN_BYTES = 4 << 10
"""Smaller answers are not counted: those to one read of the smallest requests do not add up to more than 4 MiB."""

REQUESTS_TO_CLIENT_MAX = 256
"""Open requests of ours on one connection; one more is answered with None at once."""

OnAnswer = Callable[[Command | None], None]


class ConnectionLoop(Protocol):
    """What a connection needs of its loop."""

    def mark_dirty(self, connection: Connection) -> None: ...

    def wait_writable(self, connection: Connection, wanted: bool) -> None: ...

    def unsent_changed(self, by_bytes: int) -> None: ...

    def drop(self, connection: Connection, reason: str) -> None: ...


class Connection:
    """Hosts are record host fields: ``born_host`` the peer's, ``local_host`` the address on which it reached us with
    the listener's port. ``partial`` holds an incomplete frame, of which ``wanted_bytes`` are needed in all. While
    ``is_stopped`` no further frame is handled: enough is queued, or the connection is closed; ``partial`` may then hold
    whole frames."""

    __slots__ = (
        "_loop", "_next_opaque", "_queued_bytes", "_requests", "born_host", "closed", "is_stopped", "last_active_s",
        "local_addr", "local_host", "out", "partial", "peer", "sock", "unsent", "wanted_bytes",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, loop: ConnectionLoop, local_port: int):
        peer_host, peer_port = sock.getpeername()[:2]
        local_host = _plain_host(sock.getsockname()[0])
        self.sock = sock
        self.peer = f"{_plain_host(peer_host)}:{peer_port}"
        self.born_host = host_bytes(peer_host, peer_port)
        self.local_addr = f"{local_host}:{local_port}"
        self.local_host = host_bytes(local_host, local_port)
        self.partial = bytearray()
        self.wanted_bytes = 0
        self.out: list[bytes] = []
        self.unsent = bytearray()
        self.closed = False
        self.is_stopped = False
        self.last_active_s = time.monotonic()
        self._loop = loop
        self._requests: dict[int, tuple[float, OnAnswer]] = {}
        self._next_opaque = 0
        self._queued_bytes = 0

    def send(self, frame: bytes) -> None:
        """Queues a frame; it leaves at the end of the round. Nothing happens on a closed connection."""
        if self.closed:
            return
        if not self.out:
            self._loop.mark_dirty(self)
        self.out.append(frame)
        if len(frame) >= COUNTED_FRAME_MIN_BYTES:
            self._queued_bytes += len(frame)
            if self._queued_bytes > QUEUED_MAX_BYTES:
                self.is_stopped = True
                self.flush()

    def flush(self) -> None:
        """Writes what is queued, in one call to the kernel; keeps the rest until the peer reads."""
        if self.closed or not self.out:
            return
        data = b"".join(self.out)
        self.out.clear()
        self._queued_bytes = 0
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
            self._loop.wait_writable(self, True)
            self._keep_unsent(data[sent:])

    def _keep_unsent(self, data: bytes) -> None:
        self.unsent += data
        self._loop.unsent_changed(len(data))
        if len(self.unsent) > UNSENT_MAX_BYTES:
            self.close(f"the peer does not read: {len(self.unsent)} bytes unsent")

    def flush_rest(self) -> None:
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
            self._loop.wait_writable(self, False)

    def close(self, reason: str) -> None:
        """Idempotent. Open requests of ours end with None."""
        if self.closed:
            return
        self.closed = self.is_stopped = True
        self.out.clear()
        self._loop.drop(self, reason)
        requests, self._requests = self._requests, {}
        for _deadline, on_answer in requests.values():
            on_answer(None)

    # --- requests of ours --------------------------------------------------------------------------------------------

    def notify(self, code: int, header: Header, body: bytes = b"") -> None:
        """A oneway request to the client."""
        self._next_opaque += 1
        command = Command(code=code, opaque=self._next_opaque, flag=ONEWAY_FLAG, ext=to_ext(header), body=body)
        self.send(encode_frame(command))

    def request(self, code: int, header: Header, body: bytes, on_answer: OnAnswer, timeout_s: float) -> None:
        """Asks the client; ``on_answer`` gets its answer, or None when it is late, the connection ends, or too many
        requests are open on it."""
        if self.closed or len(self._requests) >= REQUESTS_TO_CLIENT_MAX:
            on_answer(None)
            return
        self._next_opaque += 1
        self._requests[self._next_opaque] = (time.monotonic() + timeout_s, on_answer)
        self.send(encode_frame(Command(code=code, opaque=self._next_opaque, ext=to_ext(header), body=body)))

    def answered(self, answer: Command) -> None:
        """An answer came; one that nothing waits for is passed over (clients answer notifications, too)."""
        waiting = self._requests.pop(answer.opaque, None)
        if waiting is not None:
            waiting[1](answer)

    def expire_requests(self, now_s: float) -> None:
        late = [opaque for opaque, (deadline_s, _) in self._requests.items() if deadline_s <= now_s]
        for opaque in late:
            self._requests.pop(opaque)[1](None)


def _plain_host(host: str) -> str:
    """An address without zone; IPv4 where it is IPv4 mapped into IPv6."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
