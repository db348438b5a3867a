"""``/metrics``, ``/healthz`` and ``/readyz`` over HTTP, for monitoring a server: one request a connection.

Only the first line of a request matters, and every answer ends its connection. That is so little that it needs no HTTP
library. The pages are made in the server's own thread, between the rounds of its loop, piece by piece, so that no
client of the broker waits for them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import trio

from rmqproto.errors import StorageError, UsageError
from rmqproto.hosts import join
from rmqserver.advertise import local_host
from rmqserver.broker.reads import read_in_task
from rmqserver.metrics.broker_families import (
    CONTENT_TYPE,
    GAUGE,
    BrokerFamilies,
    Family,
    LabelledValue,
    StoreReads,
    render,
)
from rmqserver.version import VERSION

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker

log = logging.getLogger(__name__)

REQUEST_MAX_BYTES = 8192
REQUEST_TIMEOUT_S = 10.0
"""Time for a request to come, and for its answer to be read."""

CONNECTIONS_MAX = 16
"""Further connections wait: a page may hold a line for each of 100,000 topics."""

TURN_S = 0.001
"""How long a page is worked on before the loop has its turn: as long as the loop works at a time."""

_PLAIN = "text/plain; charset=utf-8"


class WatchPage(NamedTuple):
    status: int
    text: str
    content_type: str = _PLAIN


class WatchPages:
    """Make it, ``listen``, ``run`` it as a task. It is not ready before ``is_serving`` is set."""

    def __init__(self) -> None:
        """Without a broker to ``watch`` it is a nameserver's, which has no metrics in RocketMQ."""
        self.is_serving = False
        self._broker: Broker | None = None
        self._families: BrokerFamilies | None = None
        self._room = trio.Semaphore(CONNECTIONS_MAX)
        self._listeners: list[trio.SocketListener] = []

    def watch(self, broker: Broker, families: BrokerFamilies) -> None:
        """Serves the metrics of this broker from now on."""
        self._broker, self._families = broker, families

    async def listen(self, host: str, port: int) -> str:
        """Opens the port, 0 for any free one, and returns its address. UsageError if it is not available."""
        try:
            self._listeners = await trio.open_tcp_listeners(port, host=host)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="choose another --metrics-port, or 0 for any free one",
            ) from None
        return join(local_host(host), int(self._listeners[0].socket.getsockname()[1]))

    async def run(self) -> None:
        """Serves until cancelled; closes the port at the end."""
        await trio.serve_listeners(self._serve, self._listeners)

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with self._room, stream:
            with trio.move_on_after(REQUEST_TIMEOUT_S), suppress(trio.BrokenResourceError):
                request_line = await _request_line_untrusted(stream)
                page = await self._page(request_line)
                body = page.text.encode()
                head = (
                    f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}\r\nContent-Type: {page.content_type}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                await stream.send_all(head.encode() + (b"" if request_line[:1] == [b"HEAD"] else body))

    async def _page(self, request_line: list[bytes]) -> WatchPage:
        """The answer to a request whose first line has these words."""
        if len(request_line) != 3 or not request_line[2].startswith(b"HTTP/1."):
            return WatchPage(400, "this port speaks HTTP/1: GET /metrics\n")
        method, target, _ = request_line
        if method not in (b"GET", b"HEAD"):
            return WatchPage(405, "only GET and HEAD are known here\n")
        path = target.partition(b"?")[0]
        if path == b"/healthz":
            return WatchPage(200, "alive\n")
        if path == b"/readyz":
            if not self.is_serving:
                return WatchPage(503, "not ready: starting\n")
            if self._broker is not None and self._broker.store.flags.refuses_writes:
                return WatchPage(503, f"not ready: no messages are taken: {self._broker.store.flags.reason}\n")
            return WatchPage(200, "ready\n")
        if path == b"/metrics":
            return await self._metrics()
        return WatchPage(404, "there are /metrics, /healthz and /readyz\n")

    async def _metrics(self) -> WatchPage:
        size_bytes = 0
        if self._broker is not None:
            root = self._broker.store.directory.root
            size_bytes = await trio.to_thread.run_sync(_size_of_files, root)
        lines: list[str] = []
        try:
            found = await read_in_task(self._families.read()) if self._families is not None else None
            turn_ends_s = time.perf_counter() + TURN_S
            for line in self._lines(size_bytes, found):
                lines.append(line)
                if time.perf_counter() > turn_ends_s:
                    await trio.lowlevel.checkpoint()
                    turn_ends_s = time.perf_counter() + TURN_S
        except (StorageError, OSError) as error:
            return WatchPage(503, f"{error}\n")
        return WatchPage(200, "".join(lines), CONTENT_TYPE)

    def _lines(self, store_size_bytes: int, found: StoreReads | None) -> Iterator[str]:
        info = Family("rmqserver_info", GAUGE, "The program's version", [LabelledValue({"version": VERSION}, 1)])
        if self._families is None or found is None:
            return render([info], {"node_type": "nameserver"})
        families = [info, *self._families.families(store_size_bytes, found)]
        return render(families, self._families.labels())


async def _request_line_untrusted(stream: trio.SocketStream) -> list[bytes]:
    """The words of a request's first line, once its headers are there; none if it is no request."""
    received = bytearray()
    while b"\r\n\r\n" not in received and b"\n\n" not in received:
        data = await stream.receive_some()
        received += data
        if not data or len(received) > REQUEST_MAX_BYTES:
            return []
    return bytes(received).partition(b"\n")[0].split()


def _size_of_files(directory: str) -> int:
    """Any thread. A file that is removed meanwhile does not count."""
    size_bytes = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size_bytes += os.stat(os.path.join(parent, name)).st_size
    return size_bytes
