"""Notices to other servers: oneway requests, each on a connection that we open to the receiver's ordinary port. A
notice may be lost, so a server that needs to know also asks from time to time."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rmqproto.codes import ONEWAY_FLAG
from rmqproto.headers.base import Header
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.outward import connect, signed
from rmqserver.remoting.pump import Pump, plain_pump
from rmqserver.remoting.service import Service

log = logging.getLogger(__name__)

WAITING_MAX = 10_000
"""Notices that may wait. Further ones are dropped."""


class Notices(Service):
    """``run`` is a task of the server."""

    def __init__(self, loop: Loop, make_pump: Callable[[], Pump] = plain_pump, credentials: Credentials | None = None):
        """``make_pump`` makes the pump of each connection; ``credentials`` sign what is sent."""
        super().__init__("notices", {})
        self._loop = loop
        self._make_pump = make_pump
        self._credentials = credentials
        self._connections: dict[str, Connection] = {}
        self._send, self._receive = trio.open_memory_channel[tuple[str, Command]](WAITING_MAX)

    def post(self, address: str, code: int, header: Header, body: bytes = b"") -> None:
        """Has it sent soon, without waiting."""
        notice = Command(code=code, ext=signed(header, body, self._credentials), body=body, flag=ONEWAY_FLAG)
        try:
            self._send.send_nowait((address, notice))
        except trio.WouldBlock:
            log.warning("event=notice-dropped code=%d addr=%s", code, address)

    async def run(self) -> None:
        """Never returns. A receiver that does not answer delays no other."""
        async with trio.open_nursery() as nursery:
            async for address, notice in self._receive:
                nursery.start_soon(self._deliver, address, notice)

    async def _deliver(self, address: str, notice: Command) -> None:
        try:
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                connection = self._connections[address] = await connect(self._loop, self, address, self._make_pump())
        except OSError as error:
            reason = str(error) or type(error).__name__
            log.warning("event=notice-not-sent code=%d addr=%s reason=%r", notice.code, address, reason)
            return
        connection.send(encode_frame(notice))
        self._loop.wake()

    def connection_closed(self, connection: Connection) -> None:
        self._connections = {addr: each for addr, each in self._connections.items() if each is not connection}
