"""The first pump of an accepted connection: it takes the PROXY header off, if a load balancer has put one before the
client's bytes, and then gives way to the connection's own pump."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from rmqproto.wire import proxy_header
from rmqserver.remoting.pump import Pump

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
