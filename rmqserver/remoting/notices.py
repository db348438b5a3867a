"""Notices to other servers: oneway requests, each on a connection that we open to the receiver's ordinary port. A
notice may be lost, so a server that needs to know also asks from time to time."""

from __future__ import annotations

import logging
from collections import deque
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
"""Notices that may wait, for all receivers together. Further ones are dropped."""


class Notices(Service):
    """``run`` is a task of the server."""

    def __init__(self, loop: Loop, make_pump: Callable[[], Pump] = plain_pump, credentials: Credentials | None = None):
        """``make_pump`` makes the pump of each connection; ``credentials`` sign what is sent."""
        super().__init__("notices", {})
        self._loop = loop
        self._make_pump = make_pump
        self._credentials = credentials
        self._connections: dict[str, Connection] = {}
        self._waiting: dict[str, deque[Command]] = {}
        """By receiver, oldest first. One task at a time serves a receiver that is in here."""
        self._waiting_count = 0
        self._receivers, self._to_serve = trio.open_memory_channel[str](WAITING_MAX)

    def post(self, address: str, code: int, header: Header, body: bytes = b"") -> None:
        """Has it sent soon, without waiting."""
        if self._waiting_count >= WAITING_MAX:
            log.warning("event=notice-dropped code=%d addr=%s", code, address)
            return
        notice = Command(code=code, ext=signed(header, body, self._credentials), body=body, flag=ONEWAY_FLAG)
        if address not in self._waiting:
            self._waiting[address] = deque()
            self._receivers.send_nowait(address)
        self._waiting[address].append(notice)
        self._waiting_count += 1

    async def run(self) -> None:
        """Never returns. A receiver that does not answer delays no other."""
        async with trio.open_nursery() as nursery:
            async for address in self._to_serve:
                nursery.start_soon(self._deliver, address)

    async def _deliver(self, address: str) -> None:
        """Sends what waits for a receiver; all of it is lost if the receiver cannot be reached."""
        try:
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                connection = self._connections[address] = await connect(self._loop, self, address, self._make_pump())
        except OSError as error:
            lost = self._take(address)
            reason = str(error) or type(error).__name__
            log.warning(
                "event=notice-not-sent code=%d count=%d addr=%s reason=%r", lost[0].code, len(lost), address, reason
            )
            return
        for notice in self._take(address):
            connection.send(encode_frame(notice))
        self._loop.wake()

    def _take(self, address: str) -> deque[Command]:
        taken = self._waiting.pop(address)
        self._waiting_count -= len(taken)
        return taken

    def connection_closed(self, connection: Connection) -> None:
        self._connections = {addr: each for addr, each in self._connections.items() if each is not connection}
