"""A connection of a load that speaks TLS, to be used as a plain one that does not wait: ``BlockingIOError`` says that
nothing can be sent or received now, for TLS has errors of its own for that."""

from __future__ import annotations

import socket
import ssl

from rmqclient.remoting.handshake import shake_hands


class SecureSocket:
    def __init__(self, connected: socket.socket, context: ssl.SSLContext, host: str, port: int):
        """After the handshake, for which it waits as long as the socket's time-out says. Errors as for
        ``shake_hands``."""
        self._secured = context.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
        try:
            shake_hands(self._secured, f"{host}:{port}")
        except BaseException:
            self._secured.close()
            raise
        self.setblocking = self._secured.setblocking
        self.fileno = self._secured.fileno
        self.close = self._secured.close

    def send(self, data: bytes) -> int:
        """What was not taken must be offered again, with nothing before it."""
        try:
            return self._secured.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def recv_into(self, buffer: memoryview) -> int:
        """As many records as have come and as there is room for: each by itself would be a round of its own. 0 at the
        end."""
        size = 0
        try:
            while size < len(buffer) and (count := self._secured.recv_into(buffer[size:])):
                size += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not size:
                raise BlockingIOError from None
        return size
