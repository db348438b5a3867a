"""A TLS socket that behaves like a plain non-blocking one, as far as ``Channel`` needs it."""

from __future__ import annotations

import socket
import ssl

import anyio


class TlsSocket:
    """A connection after its handshake; made by ``secured``."""

    def __init__(self, connected: ssl.SSLSocket):
        self._connected = connected

    def fileno(self) -> int:
        return self._connected.fileno()

    def send(self, data: bytes | bytearray) -> int:
        """As ``socket.send``. After BlockingIOError the next call must begin with the same bytes."""
        try:
            return self._connected.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv(self, size_bytes: int) -> bytes:
        """As ``socket.recv``, but up to one record more than ``size_bytes``: no task would be woken for data that is
        already decrypted."""
        parts: list[bytes] = []
        try:
            while size_bytes > 0 or self._connected.pending():
                part = self._connected.recv(max(size_bytes, self._connected.pending()))
                if not part:
                    break
                parts.append(part)
                size_bytes -= len(part)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not parts:
                raise BlockingIOError from None
        return b"".join(parts)

    def close(self) -> None:
        self._connected.close()


async def secured(connected: socket.socket, tls: ssl.SSLContext, host: str) -> TlsSocket:
    """A TLS socket after its handshake; the caller limits the wait. ``connected`` is non-blocking and belongs to this
    function from now on, even after an error. OSError."""
    fresh = tls.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
    try:
        while True:
            try:
                fresh.do_handshake()
                return TlsSocket(fresh)
            except ssl.SSLWantReadError:
                await anyio.wait_readable(fresh)
            except ssl.SSLWantWriteError:
                await anyio.wait_writable(fresh)
    except BaseException:
        fresh.close()
        raise
