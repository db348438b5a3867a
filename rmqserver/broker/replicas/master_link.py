"""A connection on which a slave asks its master."""

from __future__ import annotations

from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.headers.base import Header, NoFields
from rmqproto.wire.command import Command
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.outward import Outward, ask, connect, signed
from rmqserver.remoting.pump import PLAIN
from rmqserver.remoting.service import Service

ASK_TIMEOUT_S = 30.0


class MasterLink(Service):
    """Call ``open`` first, and ``close`` in any case."""

    def __init__(self, loop: Loop, nameservers: Outward | None):
        """Requests to the master use TLS and signatures if those to the nameservers do."""
        super().__init__("master", {})
        self._loop = loop
        self._pump = nameservers.make_pump() if nameservers is not None else PLAIN
        self._credentials = nameservers.credentials if nameservers is not None else None
        self._connection: Connection | None = None

    async def open(self, addr: str) -> None:
        """Raises OSError if the master cannot be reached."""
        self._connection = await connect(self._loop, self, addr, self._pump)

    def close(self) -> None:
        if self._connection is not None and not self._connection.closed:
            self._connection.close("asked all")

    async def ask(self, code: int, header: Header | None = None, timeout_s: float = ASK_TIMEOUT_S) -> Command:
        """Returns the answer. Raises OSError if the master is gone, RefusedError if it refuses."""
        connection = self._connection
        if connection is None or connection.closed:
            raise ConnectionError("the master closed the connection")
        ext = signed(header or NoFields(), b"", self._credentials)
        answer = await ask(connection, code, ext, b"", timeout_s)
        if answer is None:
            raise ConnectionError("no answer from the master")
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark or "", address=connection.address)
        return answer
