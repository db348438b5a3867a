"""One connection without an event loop: it is opened, sends frames, and waits for the answers to them."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqclient.addresses import AddressMap
from rmqclient.remoting.requests import CONNECT_HINT, encode_not_supported
from rmqclient.tls import shake_hands
from rmqproto.errors import NotConnectedError, ProtocolError
from rmqproto.hosts import split_address
from rmqproto.wire.command import Command, FrameReader

if TYPE_CHECKING:
    import ssl  # 10 ms, not needed for plain connections

_RECEIVE_SIZE_BYTES = 256 * 1024


class BlockingConnection:
    """A connection to one address, for one thread at a time; only ``interrupt`` is for others. Who gets an error from
    it closes it, so that a late answer reaches nobody."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, address_map: AddressMap):
        """Not yet connected. ``tls`` and ``address_map`` as for ``BlockingClient``."""
        self._tls = tls
        self._address = address
        self._address_map = address_map
        self._endpoint = address_map.endpoint(address)
        self._socket: socket.socket | None = None
        self._reader = FrameReader()
        self.is_connected = False
        self.has_spoken = False
        """Whether the server has sent anything."""

    def open(self, deadline_s: float) -> None:
        """Connects. NotConnectedError if that fails before the deadline; with TLS also ConnectError and OSError as of
        ``shake_hands``."""
        error: OSError = TimeoutError("timed out")
        try:
            # A host given as text is looked up through the codec "idna", whose tables take 25 ms to load.
            name, port = self._endpoint
            host = name.encode() if name.isascii() else name
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as failure:
            found, error = [], failure
        for family, kind, protocol, _, target in found:
            self._socket = fresh = socket.socket(family, kind, protocol)  # here already, so that ``interrupt`` finds it
            try:
                fresh.settimeout(_left_s(deadline_s))
                fresh.connect(target)
                fresh.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    self._secure(fresh, self._tls, deadline_s)
                self.is_connected = True
                return
            except OSError as failure:
                error = failure
                self.close()
        raise NotConnectedError(
            f"cannot connect to {self._address}{self._address_map.by_way(self._address)}: {reason(error)}",
            address=self._address,
            hint=CONNECT_HINT,
        )

    def _secure(self, plain: socket.socket, tls: ssl.SSLContext, deadline_s: float) -> None:
        plain.settimeout(_left_s(deadline_s))
        host, _ = split_address(self._address)
        self._socket = secured = tls.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
        shake_hands(secured, self._address)

    def is_still_open(self) -> bool:
        """Whether the server holds the connection open while nobody uses it."""
        if self._socket is None:
            return False
        return _is_open(self._socket) if self._tls is None else _is_tls_open(self._socket)

    def exchange(self, frames: bytes, opaques: Sequence[int], deadline_s: float) -> list[Command]:
        """Sends the frames and waits for the answers to ``opaques``; to none, it does not wait. TimeoutError at the
        deadline, another OSError if the connection breaks, ProtocolError for what is no answer."""
        connected = self._socket
        if connected is None:
            raise ConnectionError("not connected")
        connected.settimeout(_left_s(deadline_s))
        connected.sendall(frames)
        found: dict[int, Command] = {}
        while len(found) < len(opaques):
            connected.settimeout(_left_s(deadline_s))
            data = connected.recv(_RECEIVE_SIZE_BYTES)
            if not data:
                raise ConnectionError("the peer closed the connection before it answered")
            self.has_spoken = True
            for command in self._read_untrusted(data):
                if not command.is_answer:
                    if not command.is_oneway:
                        connected.sendall(encode_not_supported(command))
                elif command.opaque in opaques:
                    found[command.opaque] = command
        return [found[opaque] for opaque in opaques]

    def _read_untrusted(self, data: bytes) -> list[Command]:
        try:
            return self._reader.feed(data)
        except ProtocolError as error:
            raise ProtocolError(f"{self._address} did not send a RocketMQ answer: {error}") from None

    def interrupt(self) -> None:
        """Makes a thread that connects, or waits for an answer, get an OSError."""
        waiting = self._socket
        if waiting is not None:
            with contextlib.suppress(OSError):  # no longer connected, so nobody waits on it
                socket.socket.shutdown(waiting, socket.SHUT_RDWR)  # SSLSocket's has the others go on in plain text

    def close(self) -> None:
        dropped, self._socket = self._socket, None
        if dropped is not None:
            dropped.close()


def _is_open(idle: socket.socket) -> bool:
    """Whether the peer still holds an idle socket open. An answer that came too late does not matter."""
    try:
        idle.setblocking(False)
        return bool(idle.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _is_tls_open(idle: socket.socket) -> bool:
    """As ``_is_open``. TLS cannot peek, so this reads: session tickets that followed the handshake are fine, but an
    answer that came too late ends the connection."""
    import ssl

    try:
        idle.setblocking(False)
        idle.recv(1)
    except ssl.SSLWantReadError:
        return True
    except OSError:
        pass
    return False


def _left_s(deadline_s: float) -> float:
    """Seconds left. TimeoutError if none are left: a socket takes a time-out of 0 as "do not wait"."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    return left_s


def reason(error: OSError) -> str:
    """Why a connection failed, in words."""
    return error.strerror or str(error) or type(error).__name__
