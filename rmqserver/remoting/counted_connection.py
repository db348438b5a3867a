"""A connection that knows how many requests wait for their answers. Plain ones do not, and pay nothing for it."""

from __future__ import annotations

import socket

from rmqproto.wire.frames import HEAD_SIZE_BYTES
from rmqserver.remoting.connection import Connection, ConnectionLoop, FrameHandler
from rmqserver.remoting.pump import PLAIN, Pump

_LENGTH_BYTES = 4


class CountedConnection(Connection):
    """``in_flight`` requests have come and are not answered. A gate counts what comes; oneway requests do not count,
    nor what we ask the peer."""

    __slots__ = ("_rest_bytes", "in_flight")

    def __init__(
        self, sock: socket.socket, loop: ConnectionLoop, service: FrameHandler, local_port: int, pump: Pump = PLAIN
    ):
        super().__init__(sock, loop, service, local_port, pump)
        self.in_flight = 0
        self._rest_bytes = 0
        """Of the answer that was begun: the records of a pull come behind its header, by themselves."""

    def send(self, frame: bytes) -> None:
        if self._rest_bytes:
            self._rest_bytes -= len(frame)
        else:
            assert len(frame) >= HEAD_SIZE_BYTES, "an answer begins with a whole head"
            self._rest_bytes = _LENGTH_BYTES + int.from_bytes(frame[:_LENGTH_BYTES], "big") - len(frame)
            self.in_flight = max(self.in_flight - 1, 0)
        super().send(frame)
