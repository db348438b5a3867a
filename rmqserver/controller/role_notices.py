"""Tells brokers who their master is (1008), oneway, each on a connection that we open to its ordinary port. A notice
may be lost: brokers also ask, every few seconds (1004)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import trio

from rmqproto.codes import ONEWAY_FLAG, RequestCode
from rmqproto.command import Command, encode_frame
from rmqproto.headers.controller import RoleChangeHeader
from rmqproto.signing import Credentials
from rmqserver.controller.controller_state import BrokerSet
from rmqserver.controller.decision import set_body
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.outward import connect, signed
from rmqserver.remoting.pump import Pump, plain_pump
from rmqserver.remoting.service import Service

log = logging.getLogger(__name__)

WAITING_MAX = 10_000
"""Notices. More of them are not sent: the brokers ask."""


class _Notice(NamedTuple):
    address: str
    header: RoleChangeHeader
    body: bytes


class RoleNotices(Service):
    """``run`` is a task of the server."""

    def __init__(self, loop: Loop, make_pump: Callable[[], Pump] = plain_pump, credentials: Credentials | None = None):
        """``make_pump`` makes what stands before each connection; ``credentials`` sign what is sent."""
        super().__init__("role-notices", {})
        self._loop = loop
        self._make_pump = make_pump
        self._credentials = credentials
        self._connections: dict[str, Connection] = {}
        self._send, self._receive = trio.open_memory_channel[_Notice](WAITING_MAX)

    def tell(self, found: BrokerSet, addresses: list[str]) -> None:
        """Who is master of the set, soon. Does not wait."""
        header = RoleChangeHeader(
            master_broker_id=found.master_broker_id,
            master_address=found.master_address,
            master_epoch=found.master_epoch,
            sync_state_set_epoch=found.sync_state_set_epoch,
        )
        for address in addresses:
            try:
                self._send.send_nowait(_Notice(address, header, set_body(found)))
            except trio.WouldBlock:
                log.warning("event=role-notice-dropped broker=%s addr=%s", found.broker_name, address)

    async def run(self) -> None:
        """Never returns. A broker that does not answer holds up no other."""
        async with trio.open_nursery() as nursery:
            async for notice in self._receive:
                nursery.start_soon(self._deliver, notice)

    async def _deliver(self, notice: _Notice) -> None:
        try:
            connection = self._connections.get(notice.address)
            if connection is None or connection.closed:
                connection = self._connections[notice.address] = await connect(
                    self._loop, self, notice.address, self._make_pump()
                )
        except (OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            log.warning("event=role-notice-not-sent addr=%s reason=%r", notice.address, reason)
            return
        code = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
        ext = signed(notice.header, notice.body, self._credentials)
        connection.send(encode_frame(Command(code=code, ext=ext, body=notice.body, flag=ONEWAY_FLAG)))
        self._loop.wake()

    def connection_closed(self, connection: Connection) -> None:
        self._connections = {addr: each for addr, each in self._connections.items() if each is not connection}
