"""A connection whose hello is HTTP/2's, until it is known who serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqproto.wire.frames import OnFrame
    from rmqserver.remoting.connection import Connection

HELLO_MAX_BYTES = 128 << 10
"""What a client may send before its connection is answered for the first time: HTTP/2's first window, 64 KiB of data,
with its hello, headers and frames (RFC 9113, 6.9.2)."""


class HeldHello:
    """Keeps what the client says."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.data = b""
        self.held_bytes = 0
        self.is_stopped = False
        self.is_over = False
        """Someone serves the connection, or it is closed."""

    def feed_untrusted(self, data: bytes) -> None:
        self.data += data
        self.held_bytes = len(self.data)
        if self.held_bytes > HELLO_MAX_BYTES:
            raise OSError("the client does not wait for an answer to its hello")

    def hand_to(self, on_frame: OnFrame, takers: list[Any]) -> None:
        """Waits at the broker that has taken this one's place."""
        connection = self.connection
        door = connection.service.other_door(connection, "HTTP/2")
        assert door is not None, "every broker has this door"
        connection.go_through(door, self.data)

    def close(self) -> None:
        self.held_bytes = 0
        self.is_over = True
