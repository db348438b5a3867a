"""Several requests under way on one connection. A replay needs guarantees that the blocking client does not give:
nothing is connected, queued or sent after a permit has ended, and a doubtful connection is closed at once."""

from __future__ import annotations

import contextlib
import itertools
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqclient.addresses import NO_MAP, AddressMap
from rmqclient.remoting.requests import OPAQUE_MASK, Fields, encode_not_supported, encode_request
from rmqclient.tls import shake_hands
from rmqproto.errors import ConnectError, ProtocolError
from rmqproto.hosts import split_address
from rmqproto.wire.command import Command, FrameReader
from rmqproto.wire.credentials import Credentials

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 3.0
UNSENT_SIZE_MAX_BYTES = 128 * 1024
"""The operating system takes no more bytes while it holds this many that are not on the wire yet. It would take four
megabytes, and send them for seconds after a permit's end, even of a killed process. What is on the wire does not count,
so this does not slow a fast line."""
_ABORT = struct.pack("ii", 1, 0)
"""The linger option with which a close throws away unsent bytes."""
_RECEIVE_SIZE_BYTES = 256 * 1024
_SLICE_SIZE_BYTES = 256 * 1024
"""Bytes given to the socket at a time. TLS would wait for all of a larger piece, past the permit's end."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request's answer; None if the connection broke or the time ran out before it came."""

    tag: object
    command: Command | None


@dataclass(slots=True)
class _UnderWay:
    tag: object
    deadline: float


class Pipeline:
    """One connection to one address. Only for one thread. Use with ``with``, or ``close`` it."""

    def __init__(
        self,
        address: str,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        address_map: AddressMap = NO_MAP,
    ):
        """``tls`` is used for the connection, and checks the name in ``address``."""
        self.address = address
        self._credentials = credentials
        self._tls = tls
        self._address_map = address_map
        self._opaques = itertools.count(1)
        self._socket: socket.socket | None = None
        self._reader = FrameReader()
        self._under_way: dict[int, _UnderWay] = {}

    def connect(self) -> None:
        """Connects, unless it is connected already. ConnectError."""
        if self._socket is not None:
            return
        host, _ = split_address(self.address)
        try:
            connected = socket.create_connection(self._address_map.endpoint(self.address), CONNECT_TIMEOUT_S)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # Linux and macOS
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_SIZE_MAX_BYTES)
            if self._tls is not None:
                connected = self._secured(connected, self._tls, host)
        except OSError as error:
            by_way = self._address_map.by_way(self.address)
            raise ConnectError(f"cannot connect to {self.address}{by_way}: {error}", address=self.address) from None
        self._socket, self._reader = connected, FrameReader()

    def _secured(self, plain: socket.socket, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
        """The socket after its TLS handshake. Errors as for ``shake_hands``."""
        secured = tls.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
        try:
            shake_hands(secured, self.address)
        except BaseException:
            secured.close()
            raise
        return secured

    def put(
        self,
        tag: object,
        code: int,
        header: Fields,
        body: bytes,
        *,
        not_after: float,
        timeout_s: float,
        extend: Callable[[], float] | None = None,
    ) -> bool:
        """Sends a request. Returns False and sends nothing if the monotonic clock has passed ``not_after`` when the
        request is ready. A request that is still being sent then asks ``extend`` for a later ``not_after``.
        ``timeout_s`` limits each wait: for the peer to take more bytes, and then for the answer. The pipeline must be
        connected. A send that fails shows in the next ``answers``."""
        assert self._socket is not None
        opaque = next(self._opaques) & OPAQUE_MASK
        frame = memoryview(encode_request(code, opaque, header, body, credentials=self._credentials))
        if time.monotonic() >= not_after:
            return False
        entry = self._under_way[opaque] = _UnderWay(tag, 0.0)
        is_sent = False
        try:
            is_sent = self._send(self._socket, frame, not_after, timeout_s, extend)
        finally:
            if not is_sent:
                self._drop()  # the broker drops an incomplete request; nothing may follow it on this connection
        entry.deadline = time.monotonic() + timeout_s
        return True

    @staticmethod
    def _send(
        to: socket.socket, frame: memoryview, not_after: float, timeout_s: float, extend: Callable[[], float] | None
    ) -> bool:
        """Whether all bytes went out. False if the permit ended without being extended, the peer took nothing for
        ``timeout_s``, or the connection broke."""
        stalled_at = time.monotonic() + timeout_s
        while frame:
            now = time.monotonic()
            if now >= not_after and extend is not None:
                not_after = extend()
                now = time.monotonic()
            if now >= min(not_after, stalled_at):
                return False
            to.settimeout(min(not_after, stalled_at) - now)
            try:
                frame = frame[to.send(frame[:_SLICE_SIZE_BYTES]) :]
            except TimeoutError:
                continue
            except OSError:
                return False
            stalled_at = time.monotonic() + timeout_s
        return True

    def answers(self) -> list[Answered]:
        """Waits until at least one request under way is answered or times out; [] if nothing is under way. An answer
        that has arrived counts even if its time is up: it may have come while a long request was being sent. After a
        time-out or a broken connection, all requests under way are given up and the connection is closed."""
        while self._under_way:
            if self._socket is None:
                return self._give_up()
            left_s = self.next_deadline - time.monotonic()
            try:
                self._socket.settimeout(max(0.0, left_s))  # 0 takes what is there, and does not wait
                data = self._socket.recv(_RECEIVE_SIZE_BYTES)  # TLS holds nothing back, since its records are smaller
                found = self._take_in(self._reader.feed(data)) if data else self._give_up()
            except (OSError, ProtocolError):
                return self._give_up()
            if found:
                return found
            if left_s <= 0:
                return self._give_up()
        return []

    @property
    def under_way_count(self) -> int:
        return len(self._under_way)

    @property
    def next_deadline(self) -> float:
        """The time when the first request under way is given up, on the monotonic clock."""
        return min(each.deadline for each in self._under_way.values())

    def fileno(self) -> int:
        """The file number for a selector; -1 while there is no connection."""
        return self._socket.fileno() if self._socket is not None else -1

    def _take_in(self, commands: list[Command]) -> list[Answered]:
        """The answers among the commands. An answer counts even if the connection breaks at a broker's request after
        it."""
        found = []
        for command in commands:
            if command.is_answer:
                entry = self._under_way.pop(command.opaque, None)
                if entry is not None:
                    found.append(Answered(entry.tag, command))
            elif not command.is_oneway and self._socket is not None:
                try:
                    self._socket.sendall(encode_not_supported(command))
                except OSError:  # the next ``answers`` gives up the requests under way
                    self._drop()
        return found

    def _give_up(self) -> list[Answered]:
        self._drop()
        found = [Answered(entry.tag, None) for entry in self._under_way.values()]
        self._under_way.clear()
        return found

    def _drop(self) -> None:
        """Closes the connection. Of requests under way, no more bytes are sent."""
        dropped, self._socket = self._socket, None
        if dropped is not None:
            if self._under_way:
                with contextlib.suppress(OSError):
                    dropped.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            dropped.close()

    def close(self) -> None:
        self._drop()
        self._under_way.clear()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_for_answers(pipelines: list[Pipeline]) -> list[Answered]:
    """Answers or time-outs of several pipelines. Waits for at least one; [] if nothing is under way."""
    busy = [each for each in pipelines if each.under_way_count]
    if len(busy) <= 1:
        return busy[0].answers() if busy else []
    with selectors.DefaultSelector() as selector:
        for each in busy:
            if each.fileno() < 0:
                return each.answers()
            selector.register(each, selectors.EVENT_READ, each)
        while True:
            first = min(busy, key=lambda each: each.next_deadline)
            left_s = first.next_deadline - time.monotonic()
            ready = selector.select(left_s) if left_s > 0 else []
            if not ready:
                return first.answers()
            found: list[Answered] = ready[0][0].data.answers()
            if found:
                return found
