"""One client's connection: what came and is not complete, what goes out, and the requests that we have put to it.

All of it is used from the loop's thread alone. Sockets never block; what a peer does not read is kept up to a limit.
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

REQUESTS_TO_CLIENT_MAX = 256
"""Open requests of ours on one connection; one more is answered with None at once."""

OnAnswer = Callable[[Command | None], None]


class ConnectionLoop(Protocol):
    """What a connection needs of its loop."""

    def mark_dirty(self, connection: Connection) -> None: ...

    def wait_writable(self, connection: Connection, wanted: bool) -> None: ...

    def drop(self, connection: Connection, reason: str) -> None: ...


class Connection:
    """Hosts are record host fields: ``born_host`` the peer's, ``local_host`` the address on which it reached us with
    the listener's port. ``partial`` holds an incomplete frame, of which ``wanted_bytes`` are needed in all."""

    __slots__ = (
        "_loop", "_next_opaque", "_requests", "born_host", "closed", "last_active_s", "local_addr", "local_host",
        "out", "partial", "peer", "sock", "unsent", "wanted_bytes",
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
        self.unsent = b""
        self.closed = False
        self.last_active_s = time.monotonic()
        self._loop = loop
        self._requests: dict[int, tuple[float, OnAnswer]] = {}
        self._next_opaque = 0

    def send(self, frame: bytes) -> None:
        """Queues a frame; it leaves at the end of the round. Nothing happens on a closed connection."""
        if self.closed:
            return
        if not self.out:
            self._loop.mark_dirty(self)
        self.out.append(frame)

    def flush(self) -> None:
        """Writes what is queued, in one call to the kernel; keeps the rest until the peer reads."""
        if self.closed:
            return
        data = b"".join(self.out)
        self.out.clear()
        if self.unsent:
            self.unsent += data
            if len(self.unsent) > UNSENT_MAX_BYTES:
                self.close(f"the peer does not read: {len(self.unsent)} bytes unsent")
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close(str(error))
            return
        if sent < len(data):
            self.unsent = data[sent:]
            self._loop.wait_writable(self, True)

    def flush_rest(self) -> None:
        """The peer reads again: writes what was kept."""
        try:
            sent = self.sock.send(self.unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        self.unsent = self.unsent[sent:]
        if not self.unsent:
            self._loop.wait_writable(self, False)

    def close(self, reason: str) -> None:
        """Idempotent. Open requests of ours end with None."""
        if self.closed:
            return
        self.closed = True
        self.out.clear()
        self.unsent = b""
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
