"""A connection on which a slave asks its master."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

import trio

from rmqproto.codes import ResponseCode
from rmqproto.command import Command
from rmqproto.errors import RefusedError
from rmqproto.headers.base import Header, NoFields
from rmqproto.signing import Credentials
from rmqserver.broker.registration import signed
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.pump import PLAIN, Pump
from rmqserver.remoting.service import Service

CONNECT_TIMEOUT_S = 3.0
ASK_TIMEOUT_S = 30.0


class Outward(Protocol):
    """How we reach other servers."""

    @property
    def make_pump(self) -> Callable[[], Pump]:
        """Makes what stands before a connection that we open."""
        ...

    @property
    def credentials(self) -> Credentials | None:
        """What signs our requests."""
        ...


class MasterLink(Service):
    """``open`` it; ``close`` it in any case."""

    def __init__(self, loop: Loop, nameservers: Outward | None):
        """What is asked of the master goes out as what is told the nameservers: over TLS, signed."""
        super().__init__("master", {})
        self._loop = loop
        self._pump = nameservers.make_pump() if nameservers is not None else PLAIN
        self._credentials = nameservers.credentials if nameservers is not None else None
        self._connection: Connection | None = None

    async def open(self, addr: str) -> None:
        """OSError if there is nobody."""
        host, _, port = addr.rpartition(":")
        with trio.fail_after(CONNECT_TIMEOUT_S):
            stream = await trio.open_tcp_stream(host.strip("[]"), int(port))
        sock = socket.socket(fileno=stream.socket.detach())
        try:
            self._connection = self._loop.adopt(sock, self, pump=self._pump)
        except OSError:
            sock.close()
            raise

    def close(self) -> None:
        if self._connection is not None and not self._connection.closed:
            self._connection.close("asked all")

    async def ask(self, code: int, header: Header | None = None) -> Command:
        """The answer. OSError if the master is gone, RefusedError if it refuses."""
        connection, done = self._connection, trio.Event()
        if connection is None or connection.closed:
            raise ConnectionError("the master closed the connection")
        answers: list[Command | None] = []

        def on_answer(answer: Command | None) -> None:
            answers.append(answer)
            done.set()

        ext = signed(header or NoFields(), b"", self._credentials)
        connection.request(code, ext, b"", on_answer, ASK_TIMEOUT_S)
        await done.wait()
        answer = answers[0]
        if answer is None:
            raise ConnectionError("no answer from the master")
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark or "", address=connection.peer)
        return answer
