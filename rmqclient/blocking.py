"""A client without an event loop: a few connections per address, one request at a time on each, from any thread.

It serves the command line, the dashboard's worker threads and Spark tasks. A command must start within a tenth of a
second, so nothing here imports trio. No change is sent twice: a request whose connection breaks may have been carried
out, and only the caller knows whether to ask again.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from threading import Condition, Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rmqclient.addresses import NO_MAP, AddressMap
from rmqclient.remoting.blocking_connection import BlockingConnection, reason
from rmqclient.remoting.requests import OPAQUE_MASK, Fields, encode_request, refusal, request_label
from rmqproto.codes import SUCCESS_ALONE
from rmqproto.errors import ConnectError, RequestTimeoutError
from rmqproto.headers.request_table import READING_CODES
from rmqproto.wire.command import Command
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

CONNECTIONS_MAX = 8
"""Connections to one address. Each slow answer, as one that a broker has to get from a client, keeps one from other
threads; and a server may limit those of one machine, on which several programs run. If it turns one away while it
serves others, those have to do."""


class BlockingClient:
    """Requests and their answers over up to CONNECTIONS_MAX connections per address. One is opened if all are in use,
    and kept.

    Every method may be called from any thread. ``close`` (or leaving ``with``) closes the connections.
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
        self._pools: dict[str, _Pool] = {}
        self._pools_lock = Lock()

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
        """The answer to one request. ``timeout_s`` includes waiting while other threads use all connections to the
        address, connecting, sending and the answer.

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
        pool = self._pool(address)
        opaques = [pool.next_opaque() for _ in headers]
        frames = [
            encode_request(code, opaque, header, body, credentials=self._credentials)
            for opaque, header in zip(opaques, headers, strict=True)
        ]
        with pool.told(self.on_silence):
            answers = pool.exchange(b"".join(frames), opaques, code, deadline_s)
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
        pool = self._pool(address)
        opaque = pool.next_opaque()
        frame = encode_request(code, opaque, header, body, credentials=self._credentials, oneway=True)
        pool.exchange(frame, [], code, deadline_s)

    def cancel(self) -> None:
        """Makes every thread that waits in ``request`` or ``oneway`` raise ConnectError. The client stays usable."""
        with self._pools_lock:
            pools = list(self._pools.values())
        for pool in pools:
            pool.interrupt()

    def close(self) -> None:
        """Closes the connections; calls that wait raise ConnectError."""
        self.cancel()
        with self._pools_lock:
            pools = list(self._pools.values())
            self._pools.clear()
        for pool in pools:
            pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pool(self, address: str) -> _Pool:
        with self._pools_lock:
            pool = self._pools.get(address)
            if pool is None:
                pool = self._pools[address] = _Pool(address, self._tls, self._address_map)
            return pool


class _TurnedAwayError(Exception):
    """A question may be asked again on another connection."""


class _Pool:
    """The connections to one address. A thread has one for itself during an exchange."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, address_map: AddressMap):
        self._address = address
        self._new = partial(BlockingConnection, address, tls, address_map)
        self._opaques = itertools.count(1)
        self._lock = Lock()
        """Entered itself, because a KeyboardInterrupt amid ``Condition.__enter__`` leaves it locked for all threads."""
        self._changed = Condition(self._lock)
        self._idle: list[BlockingConnection] = []
        self._used: set[BlockingConnection] = set()
        self._has_spoken = False
        """Whether the server has sent anything since the first of its connections was opened."""
        self._interrupts = 0
        self._connections_max = CONNECTIONS_MAX

    def next_opaque(self) -> int:
        return next(self._opaques) & OPAQUE_MASK

    @contextlib.contextmanager
    def told(self, on_silence: OnSilence | None) -> Iterator[None]:
        """Reports silence during an exchange to ``on_silence``."""
        if on_silence is None or self._has_spoken:
            yield
            return
        timer = Timer(SILENT_AFTER_S, lambda: self._has_spoken or on_silence(self._address, True))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # otherwise it might report after this
            on_silence(self._address, False)

    def exchange(self, frames: bytes, opaques: Sequence[int], code: int, deadline_s: float) -> list[Command]:
        """Sends the frames on a connection of its own, and waits for the answers to ``opaques``; to none, it does not
        wait."""
        interrupts = self._interrupts
        try:
            while True:
                taken = self._taken(interrupts, code, deadline_s)
                with contextlib.suppress(_TurnedAwayError), taken as connection:
                    return connection.exchange(frames, opaques, deadline_s)
        except TimeoutError:
            raise RequestTimeoutError(
                f"{self._address} did not answer {request_label(code)} in time",
                hint=OUTCOME_UNKNOWN if self._has_spoken else f"{_SILENCE} {OUTCOME_UNKNOWN}",
            ) from None
        except OSError as error:
            asked = f"{request_label(code)} to {self._address}"
            if interrupts != self._interrupts:
                raise ConnectError(f"{asked} was cancelled", address=self._address) from None
            hint = None if self._has_spoken else _SILENCE
            raise ConnectError(f"{asked} failed: {reason(error)}", address=self._address, hint=hint) from None

    @contextlib.contextmanager
    def _taken(self, interrupts: int, code: int, deadline_s: float) -> Iterator[BlockingConnection]:
        """A connection that nobody else uses meanwhile. It is kept, unless there is an error or an interrupt. One that
        is opened beside others has half of the time, so that those can still serve where a full queue or a firewall
        leaves it without an answer."""
        connection = self._take(interrupts, code, deadline_s)
        keeps = False
        try:
            if not connection.is_connected:
                with self._lock:
                    others_count = self._others_count
                connection.open((time.monotonic() + deadline_s) / 2 if others_count else deadline_s)
                with self._lock:
                    self._changed.notify_all()  # the next one may be opened
            if interrupts != self._interrupts:
                raise ConnectionError("cancelled")
            yield connection
            keeps = True
        except (ConnectionError, ConnectError):
            may_repeat = code in READING_CODES or not connection.is_connected
            if interrupts == self._interrupts and self._was_turned_away(connection) and may_repeat:
                raise _TurnedAwayError from None
            raise
        finally:
            with self._lock:
                self._used.remove(connection)
                self._has_spoken |= connection.has_spoken
                if keeps and interrupts == self._interrupts:
                    self._idle.append(connection)
                else:
                    connection.close()
                self._changed.notify_all()

    def _was_turned_away(self, connection: BlockingConnection) -> bool:
        """Whether the server did not take a new connection, or closed it, while others are open. Then no more are
        opened beside those."""
        with self._lock:
            is_turned_away = self._others_count > 0 and not connection.has_spoken
            if is_turned_away:
                self._connections_max = self._others_count
            return is_turned_away

    @property
    def _others_count(self) -> int:
        """How many connections there are beside the one that asks."""
        return len(self._used) + len(self._idle) - 1

    def _take(self, interrupts: int, code: int, deadline_s: float) -> BlockingConnection:
        """An idle connection, or a new one that is to be opened."""

        def may_take() -> bool:
            return bool(self._idle) or self._may_open() or interrupts != self._interrupts

        with self._lock:
            if not self._changed.wait_for(may_take, max(0.0, deadline_s - time.monotonic())):
                busy = f"{self._address} is still busy with earlier requests"
                raise RequestTimeoutError(f"{busy}; {request_label(code)} was not sent")
            if interrupts != self._interrupts:
                raise ConnectionError("cancelled")
            while self._idle:
                connection = self._idle.pop()
                if connection.is_still_open():
                    break
                connection.close()  # the server closes connections that were idle for 120 s
            else:
                connection = self._new()
                if not self._used:
                    self._has_spoken, self._connections_max = False, CONNECTIONS_MAX
            self._used.add(connection)
            return connection

    def _may_open(self) -> bool:
        """One connection is opened at a time: only one thread tries a server that is down, and a server that answers at
        once needs few."""
        return len(self._used) < self._connections_max and all(one.is_connected for one in self._used)

    def interrupt(self) -> None:
        """Makes calls that use a connection, or wait for one, raise ConnectError. Idle connections stay open."""
        with self._lock:
            self._interrupts += 1
            for connection in self._used:
                connection.interrupt()
            self._changed.notify_all()

    def close(self) -> None:
        """Closes the idle connections. Call it after ``interrupt``, which has the others closed."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()
