"""A TLS connection of a load, used like a plain non-blocking socket: where TLS has its own errors for "not now", it
raises ``BlockingIOError``."""

import socket
import ssl

from rmqclient.tls import shake_hands


class SecureSocket:
    def __init__(self, connected: socket.socket, context: ssl.SSLContext, host: str, port: int):
        """Performs the handshake, waiting at most the socket's time-out. Raises the errors of ``shake_hands``."""
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
        """Sends what it can. The caller must offer the rest again, with nothing before it."""
        try:
            return self._secured.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def recv_into(self, buffer: memoryview) -> int:
        """Receives all records that are there and fit: each would take a round of polling. 0 at the end."""
        size = 0
        try:
            while size < len(buffer) and (count := self._secured.recv_into(buffer[size:])):
                size += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not size:
                raise BlockingIOError from None
        return size
