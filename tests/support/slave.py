"""A slave that only speaks the protocol: it sends reports and receives transfers, but stores nothing."""

import socket
from typing import NamedTuple, Self

from rmqclient.admin import AdminClient
from rmqproto.ha import REPORT, TRANSFER_HEAD
from tests.support.servers import Server
from tests.support.wire import TIMEOUT_S


class Transfer(NamedTuple):
    """Bytes of the log from a log offset on; a heartbeat if there are none."""

    log_offset: int
    data: bytes


class Slave:
    """``close`` it, or use it as a context manager."""

    def __init__(self, ha_addr: str):
        host, _, port = ha_addr.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._received = b""
        self.copied = b""
        """The bytes of all transfers so far."""

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
        """The next transfer. EOFError if the master closed the connection."""
        offset, size = TRANSFER_HEAD.unpack(self._read(TRANSFER_HEAD.size))
        data = self._read(size)
        self.copied += data
        return Transfer(offset, data)

    def copy_until(self, end_offset: int, *, reports: bool = True) -> None:
        """Takes transfers until one ends at that offset."""
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
