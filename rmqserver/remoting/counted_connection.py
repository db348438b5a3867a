"""A connection that counts the requests waiting for their answers. Plain connections do not, and pay nothing for it."""

from __future__ import annotations

import socket

from rmqproto.wire.frames import HEAD_SIZE_BYTES
from rmqserver.remoting.connection import Connection, ConnectionLoop, FrameHandler
from rmqserver.remoting.pump import PLAIN, Pump

_LENGTH_BYTES = 4


class CountedConnection(Connection):
    """``in_flight`` requests have come and are not answered. A gate counts them; oneway requests and our own requests
    do not count."""

    __slots__ = ("_rest_bytes", "in_flight")

    def __init__(
        self, sock: socket.socket, loop: ConnectionLoop, service: FrameHandler, local_port: int, pump: Pump = PLAIN
    ):
        super().__init__(sock, loop, service, local_port, pump)
        self.in_flight = 0
        self._rest_bytes = 0
        """Bytes missing of the current answer: a pull's records follow its header in separate frames."""

    def send(self, frame: bytes) -> None:
        if self._rest_bytes:
            self._rest_bytes -= len(frame)
        else:
            assert len(frame) >= HEAD_SIZE_BYTES, "an answer begins with a whole head"
            self._rest_bytes = _LENGTH_BYTES + int.from_bytes(frame[:_LENGTH_BYTES], "big") - len(frame)
            self.in_flight = max(self.in_flight - 1, 0)
        super().send(frame)
