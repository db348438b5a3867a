"""The first HTTP/2 hello: only then are the libraries of this door imported, in a thread, because that takes a tenth
of a second. Until then it costs nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import trio

from rmqserver.doors.grpc.held_hello import HeldHello
from rmqserver.doors.grpc.to_master import ToMaster, may_pass_on

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.doors.grpc.call_gates import GatesAt
    from rmqserver.doors.grpc.grpc_service import GrpcService
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.outward import Outward

log = logging.getLogger(__name__)

NOT_INSTALLED = "the libraries for clients of gRPC, such as RocketMQ 5's, are missing: pip install 'rmqadmin[grpc]'"


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
        if broker.slave is not None and may_pass_on(broker):
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
