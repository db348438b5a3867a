"""Pumps stand between the bytes of a socket and the bytes of frames: one kind for each way to wrap a connection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol


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
