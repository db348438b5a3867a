"""A socket with TLS that behaves as a plain one that does not block: what ``Channel`` needs and no more."""

from __future__ import annotations

import socket
import ssl

import trio


class TlsSocket:
    """After its handshake; make it by ``secured``."""

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
        """As ``socket.recv``; a record more than ``size_bytes``, because nobody is woken for what is decrypted here."""
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
    """After the handshake, for which it waits as long as the caller lets it. ``connected`` does not block and is ours
    from now on, also after an error. OSError."""
    fresh = tls.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
    try:
        while True:
            try:
                fresh.do_handshake()
                return TlsSocket(fresh)
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(fresh)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(fresh)
    except BaseException:
        fresh.close()
        raise
