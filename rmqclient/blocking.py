"""A client without an event loop: one socket per address, one request at a time on each, from any thread.

It serves the command line, the dashboard's worker threads and Spark tasks. A command must start within a tenth of a
second, so nothing here imports trio. Nothing is sent twice: a request whose connection breaks may have been carried
out, and only the caller knows whether to ask again.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rmqclient.addresses import NO_MAP, AddressMap, split_address
from rmqclient.remoting.requests import (
    CONNECT_HINT,
    OPAQUE_MASK,
    Fields,
    encode_not_supported,
    encode_request,
    refusal,
    request_label,
)
from rmqclient.tls import shake_hands
from rmqproto.codes import SUCCESS_ALONE
from rmqproto.errors import ConnectError, NotConnectedError, ProtocolError, RequestTimeoutError
from rmqproto.wire.command import Command, FrameReader
from rmqproto.wire.credentials import Credentials

if TYPE_CHECKING:
    import ssl  # 10 ms, not needed for plain connections

TIMEOUT_S = 5.0
"""The limit for connecting, sending and the answer together, as in mqadmin."""

OUTCOME_UNKNOWN = "Whether it was carried out is unknown."
"""The hint of a time-out. A caller that knows more may show another."""
_SILENCE = "It has sent nothing at all: is it a RocketMQ server, and with TLS or without?"

SILENT_AFTER_S = 1.0
"""How long a thread waits before it is told that the server is silent."""

OnSilence = Callable[[str, bool], None]
"""Called with an address that has sent nothing for a second, and again when that wait is over. Called from any
thread."""

_RECEIVE_SIZE_BYTES = 256 * 1024


class BlockingClient:
    """Requests and their answers over one socket per address, which is opened on first use and kept.

    Every method may be called from any thread. ``close`` (or leaving ``with``) closes the sockets.
    """

    def __init__(
        self,
        credentials: Credentials | None = None,
        timeout_s: float = TIMEOUT_S,
        *,
        tls: ssl.SSLContext | None = None,
        address_map: AddressMap = NO_MAP,
    ):
        """``tls`` is used for every connection; the caller decides what it checks. The name that it checks is that of
        the address asked for, wherever ``address_map`` has the connection go."""
        self.timeout_s = timeout_s
        self.on_silence: OnSilence | None = None
        """Called about servers that have not sent anything yet."""
        self._tls = tls
        self._address_map = address_map
        self._credentials = credentials
        self._lines: dict[str, _Line] = {}
        self._lines_lock = Lock()

    def request(
        self,
        address: str,
        code: int,
        header: Fields | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        accept: Collection[int] = SUCCESS_ALONE,
    ) -> Command:
        """The answer to one request. ``timeout_s`` includes waiting for another thread's request to the same address,
        connecting, sending and the answer.

        NotConnectedError if no connection could be made, ConnectError if it broke; RequestTimeoutError; RefusedError
        for an answer whose code is not in ``accept``; ProtocolError for an answer that is not valid.
        """
        (answer,) = self.request_all(address, code, [header], body, timeout_s=timeout_s, accept=accept)
        return answer

    def request_all(
        self,
        address: str,
        code: int,
        headers: Sequence[Fields | None],
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        accept: Collection[int] = SUCCESS_ALONE,
    ) -> list[Command]:
        """The answers to several requests, one for each header, which are sent together and so wait for the network
        only once. ``timeout_s`` is for all of them. Errors as for ``request``."""
        deadline_s = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        line = self._line(address)
        opaques = [line.next_opaque() for _ in headers]
        frames = [
            encode_request(code, opaque, header, body, credentials=self._credentials)
            for opaque, header in zip(opaques, headers, strict=True)
        ]
        with line.told(self.on_silence):
            answers = line.exchange(b"".join(frames), opaques, request_label(code), deadline_s)
        for answer in answers:
            if answer.code not in accept:
                raise refusal(answer, address)
        return answers

    def oneway(
        self,
        address: str,
        code: int,
        header: Fields | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Sends a request that has no answer. ConnectError and RequestTimeoutError as for ``request``."""
        deadline_s = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        line = self._line(address)
        opaque = line.next_opaque()
        frame = encode_request(code, opaque, header, body, credentials=self._credentials, oneway=True)
        line.exchange(frame, [], request_label(code), deadline_s)

    def cancel(self) -> None:
        """Makes every thread that waits in ``request`` or ``oneway`` raise ConnectError. The client stays usable."""
        with self._lines_lock:
            lines = list(self._lines.values())
        for line in lines:
            line.interrupt()

    def close(self) -> None:
        """Closes the sockets; calls that wait raise ConnectError."""
        self.cancel()
        with self._lines_lock:
            lines = list(self._lines.values())
            self._lines.clear()
        for line in lines:
            line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _line(self, address: str) -> _Line:
        with self._lines_lock:
            line = self._lines.get(address)
            if line is None:
                line = self._lines[address] = _Line(address, self._tls, self._address_map)
            return line


class _Line:
    """One address: its socket, if any, and the lock that an exchange holds."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, address_map: AddressMap):
        self._tls = tls
        self._address = address
        self._host, _ = split_address(address)
        self._endpoint = address_map.endpoint(address)
        self._by_way = address_map.by_way(address)
        self._lock = Lock()
        self._opaques = itertools.count(1)
        self._interrupts = 0
        self._socket: socket.socket | None = None
        self._has_spoken = False
        """Whether the peer has sent anything on this socket."""
        self._reader = FrameReader()

    def next_opaque(self) -> int:
        return next(self._opaques) & OPAQUE_MASK

    @contextlib.contextmanager
    def told(self, on_silence: OnSilence | None) -> Iterator[None]:
        """Reports silence during an exchange to ``on_silence``."""
        if on_silence is None or self._has_spoken:
            yield
            return
        timer = Timer(SILENT_AFTER_S, on_silence, (self._address, True))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # otherwise it might report after this
            on_silence(self._address, False)

    def exchange(self, frames: bytes, opaques: Sequence[int], label: str, deadline_s: float) -> list[Command]:
        """Connects if necessary, sends the frames, and waits for the answers to ``opaques``; to none, it does not wait.
        After any error the socket is dropped, so that a late answer reaches nobody."""
        interrupts = self._interrupts
        if not self._lock.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
            raise RequestTimeoutError(f"{self._address} is still busy with an earlier request; {label} was not sent")
        try:
            if interrupts != self._interrupts:
                raise ConnectError(f"{label} to {self._address} was cancelled", address=self._address)
            connected = self._connected(deadline_s)
            try:
                connected.settimeout(_left_s(deadline_s))
                connected.sendall(frames)
                return self._answers(connected, opaques, deadline_s)
            except BaseException:
                self._drop()
                raise
        except TimeoutError:
            raise RequestTimeoutError(
                f"{self._address} did not answer {label} in time",
                hint=OUTCOME_UNKNOWN if self._has_spoken else f"{_SILENCE} {OUTCOME_UNKNOWN}",
            ) from None
        except OSError as error:
            what = "was cancelled" if interrupts != self._interrupts else f"failed: {_reason(error)}"
            raise ConnectError(f"{label} to {self._address} {what}", address=self._address) from None
        finally:
            self._lock.release()

    def _answers(self, connected: socket.socket, opaques: Sequence[int], deadline_s: float) -> list[Command]:
        found: dict[int, Command] = {}
        while len(found) < len(opaques):
            connected.settimeout(_left_s(deadline_s))
            data = connected.recv(_RECEIVE_SIZE_BYTES)
            if not data:
                raise ConnectionError("the peer closed the connection before it answered")
            self._has_spoken = True
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

    def _connected(self, deadline_s: float) -> socket.socket:
        """The open socket, or a new one. NotConnectedError if no connection can be made before the deadline."""
        if self._socket is not None:
            if _is_open(self._socket) if self._tls is None else _is_tls_open(self._socket):
                return self._socket
            self._drop()  # the server closes connections that were idle for 120 s
        error: OSError = TimeoutError("timed out")
        try:
            # A host given as text is looked up through the codec "idna", whose tables take 25 ms to load.
            name, port = self._endpoint
            host = name.encode() if name.isascii() else name
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as failure:
            found, error = [], failure
        for family, kind, protocol, _, target in found:
            fresh = socket.socket(family, kind, protocol)
            self._has_spoken = False
            self._socket = fresh  # before it is connected, so that ``interrupt`` reaches it
            try:
                fresh.settimeout(_left_s(deadline_s))
                fresh.connect(target)
                fresh.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return fresh if self._tls is None else self._secured(fresh, self._tls, deadline_s)
            except OSError as failure:
                error = failure
                self._drop()
        raise NotConnectedError(
            f"cannot connect to {self._address}{self._by_way}: {_reason(error)}",
            address=self._address,
            hint=CONNECT_HINT,
        )

    def _secured(self, plain: socket.socket, tls: ssl.SSLContext, deadline_s: float) -> socket.socket:
        """The socket after its TLS handshake. Errors as for ``shake_hands``."""
        plain.settimeout(_left_s(deadline_s))
        self._socket = secured = tls.wrap_socket(plain, server_hostname=self._host, do_handshake_on_connect=False)
        try:
            shake_hands(secured, self._address)
        except ConnectError:
            self._drop()
            raise
        return secured

    def interrupt(self) -> None:
        """Makes calls that wait on the socket, or for the lock, raise ConnectError. An idle socket stays open."""
        self._interrupts += 1  # first, so that a thread that takes the lock from here on sees it
        waiting = self._socket
        if waiting is not None and self._lock.locked():
            with contextlib.suppress(OSError):  # no longer connected, so nobody waits on it
                waiting.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Call it after ``interrupt``, so that the lock is free."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        dropped, self._socket = self._socket, None
        self._reader = FrameReader()
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


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
