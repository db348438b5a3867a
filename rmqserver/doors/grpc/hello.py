"""The first HTTP/2 hello: only then are the libraries of this door imported, in a thread, because that takes a tenth
of a second. Until then it costs nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from rmqproto.wire.frames import OnFrame
    from rmqserver.broker.broker import Broker
    from rmqserver.doors.grpc.call_gates import GatesAt
    from rmqserver.doors.grpc.grpc_service import GrpcService
    from rmqserver.remoting.connection import Connection

log = logging.getLogger(__name__)

HELLO_MAX_BYTES = 128 << 10
"""What a client may send before its connection is answered for the first time: HTTP/2's first window, 64 KiB of data,
with its hello, headers and frames (RFC 9113, 6.9.2)."""

NOT_INSTALLED = "the libraries for clients of gRPC, such as RocketMQ 5's, are missing: pip install 'rmqadmin[grpc]'"


def is_installed() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


class GrpcDoor:
    """Takes connections whose first bytes are HTTP/2's. ``run`` is its task."""

    def __init__(self, broker: Broker, turned_away: Callable[[Connection, str, str], None], gates_at: GatesAt):
        """``turned_away`` is told of a connection that cannot be served, with its protocol and the reason; ``gates_at``
        are the gates of limits and faults."""
        self._broker = broker
        self._turned_away = turned_away
        self._gates_at = gates_at
        self._service: GrpcService | None = None
        self._problem = ""
        self._asked = trio.Event()
        self._waiting: list[tuple[Connection, _Waiting]] = []

    def take(self, connection: Connection) -> _Waiting:
        waiting = _Waiting()
        if self._service is not None or self._problem:
            self._broker.loop.post(lambda: self._open(connection, waiting))
        else:
            self._waiting.append((connection, waiting))
            self._asked.set()
        return waiting

    async def run(self) -> None:
        await self._asked.wait()
        try:
            module = await trio.to_thread.run_sync(import_module, "rmqserver.doors.grpc.grpc_service")
        except ImportError as error:
            self._problem = f"{NOT_INSTALLED} ({error})"
        else:
            self._service = module.GrpcService(self._broker, self._gates_at)
            log.info("event=grpc-opened")
        waiting, self._waiting = self._waiting, []
        for connection, hello in waiting:
            self._open(connection, hello)
        if self._service is not None:
            await self._service.run()

    def _open(self, connection: Connection, hello: _Waiting) -> None:
        if self._service is not None:
            connection.go_through(self._service.link(connection), hello.data)
        else:
            self._turned_away(connection, "HTTP/2", self._problem)
            connection.close(self._problem)


class _Waiting:
    """Keeps what a client says until the door is open."""

    def __init__(self) -> None:
        self.data = b""
        self.held_bytes = 0
        self.is_stopped = False

    def feed_untrusted(self, data: bytes) -> None:
        self.data += data
        self.held_bytes = len(self.data)
        if self.held_bytes > HELLO_MAX_BYTES:
            raise OSError("the client does not wait for an answer to its hello")

    def hand_to(self, on_frame: OnFrame) -> None:
        """Frames are not for it."""

    def close(self) -> None:
        self.held_bytes = 0
