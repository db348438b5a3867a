"""Pumps stand between the bytes of a socket and the bytes of frames: one kind for each way to wrap a connection."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rmqproto.wire import proxy_header

HANDSHAKE_MAX_S = 10.0
"""Counted from its first byte; the same as Apache's (Netty's). A peer that sends half a hello can hold a connection no
longer."""

HANDSHAKE_RECORD = 0x16
"""The first byte of a client that speaks TLS. As a frame's, it would mean a length of 352 MB."""

HELLO_MAX_BYTES = 64 << 10
"""A client sends no more before it is answered."""


class PumpError(OSError):
    """The peer fails in its handshake or cipher. The text says why; what ``to_send`` still has goes to the peer
    first."""

    def __init__(self, protocol: str, reason: str):
        """``protocol`` is what the peer tried to speak."""
        super().__init__(reason)
        self.protocol = protocol


class Pump(Protocol):
    """A connection's pump. It does no I/O: the connection reads and writes the socket.

    OSError ends the connection; a PumpError is also logged.
    """

    def received(self, data: memoryview, /) -> bytes:
        """Takes bytes from the socket and returns bytes for the frame cutter, empty if more input is needed first. The
        view is valid only during the call."""

    def to_send(self, frames: Sequence[bytes], /) -> bytes:
        """Takes frames and returns bytes for the socket, preceded by what the pump itself has to write."""

    wants_to_write: bool
    """Whether ``to_send`` must be called even without frames."""

    opens_by_s: float
    """When a handshake must have ended (``time.monotonic()``); infinite if none is under way."""


class PlainPump:
    """Passes bytes through unchanged. Both directions are C functions, because this is the hot path: a Python method
    around each would cost a hundredth of a request."""

    wants_to_write = False
    opens_by_s = math.inf

    def __init__(self) -> None:
        self.received: Callable[[memoryview], bytes] = memoryview.tobytes
        self.to_send: Callable[[Sequence[bytes]], bytes] = b"".join


PLAIN = PlainPump()
"""Shared by all plain connections: it keeps no state."""


def plain_pump() -> Pump:
    return PLAIN


def _not_yet(pump: Pump, data: bytes) -> None:
    raise AssertionError("no connection has this pump")


_NO_PLAIN = (
    "the client speaks no TLS, and tls.server.mode=enforcing: switch TLS on in the client (Java: -Dtls.enable=true; "
    "rmqadmin: --tls)"
)


class FirstBytePump:
    """The pump of an accepted connection whose first byte tells whether it is TLS. If it is not, the connection goes on
    with the plain pump, or fails unless it ``takes_plain``. If it is, ``begin_tls`` is called once. It calls back with
    the pump for TLS, perhaps later; until then the client's bytes are kept."""

    wants_to_write = False

    def __init__(self, begin_tls: Callable[[Callable[[Pump], None]], None], *, takes_plain: bool = True):
        self.opens_by_s = math.inf
        self.to_send: Callable[[Sequence[bytes]], bytes] = PLAIN.to_send
        self.change: Callable[[Pump, bytes], None] = _not_yet
        """Set by the connection: it goes on with another pump, which first gets these bytes."""
        self._begin_tls = begin_tls
        self._takes_plain = takes_plain
        self._hello = b""

    def received(self, data: memoryview, /) -> bytes:
        if not self._hello:
            if data[0] != HANDSHAKE_RECORD:
                if not self._takes_plain:
                    raise PumpError("plain", _NO_PLAIN)
                self.change(PLAIN, bytes(data))
                return b""
            self.opens_by_s = time.monotonic() + HANDSHAKE_MAX_S
            self._hello = bytes(data)
            self._begin_tls(lambda tls: self.change(tls, self._hello))
            return b""
        self._hello += data
        if len(self._hello) > HELLO_MAX_BYTES:
            raise PumpError("TLS", "the client does not wait for an answer to its hello")
        return b""


HEADER_MAX_S = 10.0
"""Counted from its first byte, as for a TLS handshake."""


class ProxyPump:
    """``on_through`` is called once, with the client's ``ip:port`` or None, and before any byte goes on: ``pump`` must
    get all bytes from then on. ProtocolError for a bad header."""

    def __init__(self, pump: Pump, on_through: Callable[[str | None], None]):
        self.to_send: Callable[[Sequence[bytes]], bytes] = pump.to_send
        self.wants_to_write = False
        self.opens_by_s = math.inf
        self._pump = pump
        self._on_through = on_through
        self._begun = b""

    def received(self, data: memoryview, /) -> bytes:
        if not self._begun:
            if data[0] not in proxy_header.FIRST_BYTES:
                self._on_through(None)
                return self._pump.received(data)
            self.opens_by_s = time.monotonic() + HEADER_MAX_S
        self._begun += data
        header = proxy_header.parse_untrusted(self._begun)
        if header is None:
            return b""
        self._on_through(header.source)
        rest = self._begun[header.size :]
        return self._pump.received(memoryview(rest)) if rest else b""
