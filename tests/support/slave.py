"""A slave that only speaks: reports go out, transfers come in, and nothing is stored."""

from __future__ import annotations

import socket
from typing import NamedTuple, Self

from rmqclient.admin import AdminClient
from rmqproto.ha import REPORT, TRANSFER_HEAD
from tests.support.servers import Server
from tests.support.wire import TIMEOUT_S


class Transfer(NamedTuple):
    """Bytes of the log from a log offset on; without bytes, a sign of life."""

    log_offset: int
    data: bytes


class Slave:
    """``close`` it, or use it as a context."""

    def __init__(self, ha_addr: str):
        host, _, port = ha_addr.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._received = b""
        self.copied = b""
        """What all transfers together brought."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def report(self, log_offset: int) -> None:
        self.send(REPORT.pack(log_offset))

    def transfer(self) -> Transfer:
        """The next one. EOFError if the master closed the connection."""
        offset, size = TRANSFER_HEAD.unpack(self._read(TRANSFER_HEAD.size))
        data = self._read(size)
        self.copied += data
        return Transfer(offset, data)

    def copy_until(self, end_offset: int, *, reports: bool = True) -> None:
        """Takes transfers until one ends there."""
        end = -1
        while end < end_offset:
            found = self.transfer()
            end = found.log_offset + len(found.data)
            if reports and found.data:
                self.report(end)

    def _read(self, size: int) -> bytes:
        while len(self._received) < size:
            data = self._socket.recv(1 << 20)
            if not data:
                raise EOFError("the master closed the connection")
            self._received += data
        found, self._received = self._received[:size], self._received[size:]
        return found


def ha_addr_of(server: Server, admin: AdminClient) -> str:
    return f"127.0.0.1:{admin.broker_config(server.broker_addr)['haListenPort']}"
