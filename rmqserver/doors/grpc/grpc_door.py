"""The first HTTP/2 hello: only then are the libraries of this door imported, in a thread, because that takes a tenth
of a second. Until then it costs nothing.

A slave passes the connections of gRPC clients on to its master, byte for byte, as it forwards requests of the older
protocol (``forwarding``): after a handover, and after a killed master has come back, clients go on asking here until
they ask for routes again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.wire.proxy_header import line_of
from rmqserver.doors.way_to_master import WayToMaster, may_pass_connections
from rmqserver.remoting.service import Service

if TYPE_CHECKING:
    from rmqproto.wire.frames import OnFrame
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.replicas.slave import Slave
    from rmqserver.doors.grpc.grpc_service import GatesAt, GrpcService
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.outward import Outward

log = logging.getLogger(__name__)

NOT_INSTALLED = "the libraries for clients of gRPC, such as RocketMQ 5's, are missing: pip install 'rmqadmin[grpc]'"

HELLO_MAX_BYTES = 128 << 10
"""What a client may send before its connection is answered for the first time: HTTP/2's first window, 64 KiB of data,
with its hello, headers and frames (RFC 9113, 6.9.2)."""


def is_installed() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


class GrpcDoor:
    """Takes connections whose first bytes are HTTP/2's. ``run`` is its task."""

    def __init__(
        self, broker: Broker, turned_away: Callable[[Connection, str, str], None], gates_at: GatesAt,
        nameservers: Outward | None = None,
    ):  # fmt: skip
        """``turned_away`` is told of a connection that cannot be served, with its protocol and the reason; ``gates_at``
        are the gates of limits and faults. Connections to a master are opened as those to ``nameservers``."""
        self._broker = broker
        self._turned_away = turned_away
        self._gates_at = gates_at
        self._to_master: ToMaster | None = None
        if broker.slave is not None and may_pass_connections(broker):
            self._to_master = ToMaster(broker, broker.slave, nameservers)
        self._service: GrpcService | None = None
        self._problem = ""
        self._asked = trio.Event()
        self._waiting: list[HeldHello] = []

    def take(self, connection: Connection) -> HeldHello:
        if self._to_master is not None and connection.address == connection.real_address:
            return self._to_master.take(connection)
        waiting = HeldHello(connection)
        if self._service is not None or self._problem:
            self._broker.loop.post(lambda: self._open(waiting))
        else:
            self._waiting.append(waiting)
            self._asked.set()
        return waiting

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            if self._to_master is not None:
                nursery.start_soon(self._to_master.run)
            await self._asked.wait()
            await self._serve()

    async def _serve(self) -> None:
        try:
            module = await trio.to_thread.run_sync(import_module, "rmqserver.doors.grpc.grpc_service")
        except ImportError as error:
            self._problem = f"{NOT_INSTALLED} ({error})"
        else:
            self._service = module.GrpcService(self._broker, self._gates_at)
            log.info("event=grpc-opened")
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._open(each)
        if self._service is not None:
            await self._service.run()

    def _open(self, waiting: HeldHello) -> None:
        connection = waiting.connection
        if waiting.is_over:
            return
        if self._service is not None:
            connection.go_through(self._service.link(connection), waiting.data)
        else:
            self._turned_away(connection, "HTTP/2", self._problem)
            connection.close(self._problem)


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


# --- on to the master -------------------------------------------------------------------------------------------------


class ToMaster(Service):
    """The service of the connections to the master. ``run`` is a task."""

    def __init__(self, broker: Broker, slave: Slave, nameservers: Outward | None):
        super().__init__("to-master", {})
        self.limits = broker.config
        self.idle_max_s = 0  # the client's own connection has a limit
        self._loop = broker.loop
        self._master = WayToMaster(broker.loop, slave, broker.set_state, nameservers)
        self._asked, self._coming = trio.open_memory_channel[HeldHello](math.inf)

    def take(self, connection: Connection) -> HeldHello:
        waiting = HeldHello(connection)
        self._asked.send_nowait(waiting)
        return waiting

    async def run(self) -> None:
        """Runs until cancelled. What is connected by then stays so: the old master sends its clients away itself."""
        async with trio.open_nursery() as nursery:
            async for waiting in self._coming:
                nursery.start_soon(self._open, waiting)

    async def _open(self, waiting: HeldHello) -> None:
        client = waiting.connection
        found = await self._master.connect(self, line_of(client.address, client.local_addr))
        if found is None:
            client.close("there is no master to pass it on to")
        elif waiting.is_over:
            found[1].close("its client is gone")
        else:
            _, upstream = found
            upstream.go_through(_Through(client), b"")
            client.go_through(_Through(upstream), waiting.data)
            self._loop.wake()


class _Through:
    """Bytes of one connection go to another, and both end together."""

    is_stopped = False
    held_bytes = 0

    def __init__(self, to: Connection):
        self._to = to

    def feed_untrusted(self, data: bytes) -> None:
        if data:
            self._to.put_out(bytes(data))

    def hand_to(self, on_frame: OnFrame, takers: list[Any]) -> None:
        """The broker has another role now. The connection leads where it did until that end closes it."""

    def close(self) -> None:
        self._to.flush()
        self._to.close("its other end is gone")
