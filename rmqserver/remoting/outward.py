"""Our requests to other servers, on connections that the loop serves: opening, signing and asking."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import trio

from rmqproto.headers.base import Header, to_ext
from rmqproto.hosts import is_port, not_a_port
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import sign

if TYPE_CHECKING:
    from rmqproto.wire.command import Command
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.loop import Loop
    from rmqserver.remoting.pump import Pump
    from rmqserver.remoting.service import Service


CONNECT_TIMEOUT_S = 3.0


class Outward(Protocol):
    """How we reach other servers."""

    @property
    def make_pump(self) -> Callable[[], Pump]:
        """Returns the function that makes the pump of a connection we open."""
        ...

    @property
    def credentials(self) -> Credentials | None:
        """Signs our requests."""
        ...


async def open_stream(addr: str) -> trio.SocketStream:
    """A connection to ``host:port``, which the caller closes. OSError if there is none within CONNECT_TIMEOUT_S, or the
    address is invalid: some come from other servers."""
    host, _, port = addr.rpartition(":")
    if not is_port(port):
        raise OSError(f"{addr!r} is not an address: {not_a_port(port)}")
    try:
        with trio.fail_after(CONNECT_TIMEOUT_S):
            return await trio.open_tcp_stream(host.strip("[]"), int(port))
    except trio.TooSlowError:
        raise TimeoutError(f"no connection in {CONNECT_TIMEOUT_S:g} s") from None
    except ValueError as error:
        raise OSError(f"{addr!r} is not an address: {error}") from None


async def connect(loop: Loop, service: Service, addr: str, pump: Pump, before: bytes = b"") -> Connection:
    """A connection to ``host:port`` in the loop, on which ``before`` was said, even before TLS. Its answers come
    through ``service``. OSError if there is none within CONNECT_TIMEOUT_S, or no further one can be opened."""
    sock = socket.socket(fileno=(await open_stream(addr)).socket.detach())
    try:
        sock.send(before)  # a new connection has room for a line
        return loop.adopt(sock, service, pump=pump)
    except OSError:
        sock.close()
        raise


def signed(header: Header, body: bytes, credentials: Credentials | None) -> dict[str, str]:
    """The header's ext fields, signed if there are credentials."""
    ext = to_ext(header)
    if credentials is not None:
        sign(ext, body, credentials)
    return ext


async def ask(connection: Connection, code: int, ext: dict[str, str], body: bytes, timeout_s: float) -> Command | None:
    """The answer; None when it is late or the connection ends."""
    done = trio.Event()
    answers: list[Command | None] = []

    def on_answer(answer: Command | None) -> None:
        answers.append(answer)
        done.set()

    connection.ask(code, ext, body, on_answer, timeout_s)
    await done.wait()
    return answers[0]
