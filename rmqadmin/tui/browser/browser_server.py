"""Serves dashboards to browsers: textual-serve behind a gate, with a page that loads nothing from other servers. The
dashboard of each page is a separate process, so that a defect or a large body in another does not affect it.

The gate accepts requests with the token, from a page of this server. The token keeps out other users of the machine and
other pages in the user's browser. The Host header is also checked: a foreign page may point its own name at this
machine (DNS rebinding), so that the browser treats both as one origin. The header still has the foreign name."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import secrets
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager
from textual_serve.server import Server, to_int

from rmqproto.errors import UsageError

END_TIMEOUT_S = 5.0
"""A dashboard that takes longer to end is killed."""

WIDTH_MAX, HEIGHT_MAX = 1000, 500
"""The largest terminal that a page may request: each cell takes memory."""


class DashboardProcess(AppService):
    """As textual-serve's, but without a shell: ``argv`` and ``environment`` are passed unchanged. The program and its
    children form a process group, which is killed as a whole."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        write_bytes: Callable[[bytes], Awaitable[None]],
        write_str: Callable[[str], Awaitable[None]],
        close: Callable[[], Awaitable[object]],
        download_manager: DownloadManager,
    ):
        async def end_page() -> None:
            await close()

        super().__init__(
            argv[0], write_bytes=write_bytes, write_str=write_str, close=end_page, download_manager=download_manager
        )
        self._argv, self._environment = list(argv), dict(environment)

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**self._build_environment(*fitting(width, height)), **self._environment},
            start_new_session=True,
        )
        self._stdin = self._process.stdin
        return self._process

    async def run(self) -> None:
        """Passes on what the dashboard sends until it ends, and then closes the page. A dashboard that was killed, or
        that could not start, says no goodbye, and its page would show the last frame for ever."""
        with suppress(asyncio.CancelledError):  # textual-serve's reader of standard error, if it had not begun
            await super().run()
        await self.remote_close()

    async def set_terminal_size(self, width: int, height: int) -> None:
        await super().set_terminal_size(*fitting(width, height))

    async def stop(self) -> None:
        """Asks the dashboard to end, and kills it after END_TIMEOUT_S. May be called repeatedly."""
        process = self._process
        if process is None:
            return
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await super().stop()
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def fitting(width: int, height: int) -> tuple[int, int]:
    return max(1, min(width, WIDTH_MAX)), max(1, min(height, HEIGHT_MAX))


_TOKEN_BYTES = 24
_LOOPBACK_NAMES = frozenset({"localhost", "localhost."})


class BrowserGate:
    """``token`` is the secret that a browser must send. ``names`` are the server's names, apart from addresses and
    localhost."""

    def __init__(self, names: Collection[str] = ()):
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._names = _LOOPBACK_NAMES | {name.lower() for name in names if name}

    def refusal(self, host: str | None, origin: str | None) -> str | None:
        """Why a request with these headers is refused; None if it is not. Browsers always send the origin of a
        websocket, so a request without one is not from a browser."""
        if not self._is_own(host):
            return f"This server is not called {host!r}."
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return f"A page of {origin!r} may not speak to this server."
        return None

    def knows(self, token: str | None) -> bool:
        """Whether this is the token. Compares in constant time for tokens of one length."""
        return token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def _is_own(self, host: str | None) -> bool:
        """Whether ``host`` is this server. Addresses are accepted, because DNS cannot redirect them."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or _is_address(name)


def machine_names() -> set[str]:
    """The names of this machine."""
    name = socket.gethostname()
    return {name, socket.getfqdn(name)}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


SESSIONS_MAX = 8
"""How many dashboards may run at a time: each is a process of some 80 MB."""

MESSAGE_MAX_BYTES = 1024 * 1024
"""The largest message from a page: keys, or pasted text."""

FONT_SIZE_DEFAULT_PX, FONT_SIZES_PX = 16, (6, 64)

CLOSE_TIMEOUT_S = 2.0

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_ANY = ("0.0.0.0", "::")
_PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServedDashboard(msgspec.Struct, frozen=True):
    """The program for each page: ``argv``, with ``environment`` added to the server's variables. ``title`` is the
    page's."""

    argv: Sequence[str]
    environment: dict[str, str]
    title: str


class BrowserServer(Server):
    """``run`` serves until a signal ends it and all its dashboards."""

    def __init__(self, served: ServedDashboard, host: str, port: int):
        """``port`` 0 means any free one."""
        super().__init__(served.argv[0], host, port, served.title)
        self.gate = BrowserGate({host, *machine_names()} if host not in _LOOPBACK else {host})
        self._served = served
        self._sessions: set[web.WebSocketResponse] = set()

    @property
    def url(self) -> str:
        """The address with the token. The port is only known while the server runs."""
        host = socket.gethostname() if self.host in _ANY else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/?{urlencode({'token': self.gate.token})}"

    async def run(self, tell: Callable[[str], None]) -> None:
        """Serves. ``tell`` is called with the address of the page. UsageError if the port cannot be bound."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _END_SIGNALS:
            loop.add_signal_handler(number, ended.set)
        runner = web.AppRunner(
            await self._make_app(), access_log=None, handle_signals=False, shutdown_timeout=CLOSE_TIMEOUT_S
        )
        await runner.setup()
        try:
            await self._listen(runner)
            tell(self.url)
            await ended.wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, self.host, self.port).start()
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen on {self.host}:{self.port}: {error}") from None
        self.port = runner.addresses[0][1]

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._pass_gate)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Prints nothing, unlike textual-serve's: ``run`` tells the address."""

    async def on_shutdown(self, app: web.Application) -> None:
        """Closes each page's websocket; the handler then ends the dashboard."""
        await asyncio.gather(*(page.close(code=WSCloseCode.GOING_AWAY) for page in list(self._sessions)))

    # --- access ----------------------------------------------------------------------------------------------------

    @property
    def _cookie(self) -> str:
        """The name of the cookie. It has the port, because browsers share cookies between ports."""
        return f"rmqadmin-{self.port}"

    @web.middleware
    async def _pass_gate(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        refusal = self.gate.refusal(request.headers.get("Host"), request.headers.get("Origin"))
        if refusal is not None:
            raise web.HTTPForbidden(text=f"{refusal}\n")
        token = request.query.get("token")
        if not self.gate.knows(token) and not self.gate.knows(request.cookies.get(self._cookie)):
            raise web.HTTPForbidden(text="The address of this page ends with a token: see the terminal of rmqadmin.\n")
        return await handler(request)

    # --- the page --------------------------------------------------------------------------------------------------

    async def handle_index(self, request: web.Request) -> web.Response:
        """Serves the page. The token in its address becomes a cookie that scripts cannot read and other sites cannot
        send."""
        nonce = secrets.token_urlsafe(16)
        size_px = to_int(request.query.get("fontsize", ""), FONT_SIZE_DEFAULT_PX)
        websocket_url = f"{'wss' if request.secure else 'ws'}://{request.host}/ws"
        text = _PAGE.substitute(
            title=escape(self.title),
            websocket_url=escape(websocket_url),
            font_size_px=max(FONT_SIZES_PX[0], min(size_px, FONT_SIZES_PX[1])),
            nonce=nonce,
        )
        policy = (
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline';"
            f" font-src 'self'; img-src 'self' data:; connect-src 'self' {websocket_url};"
            " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        page = web.Response(
            text=text,
            content_type="text/html",
            headers={
                "Content-Security-Policy": policy,
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
            },
        )
        page.set_cookie(self._cookie, self.gate.token, httponly=True, samesite="Strict", path="/")
        return page

    # --- a dashboard -----------------------------------------------------------------------------------------------

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Runs a dashboard while its page is open."""
        if len(self._sessions) >= SESSIONS_MAX:
            raise web.HTTPServiceUnavailable(text=f"{SESSIONS_MAX} dashboards are open already.\n")
        page = web.WebSocketResponse(heartbeat=15, timeout=CLOSE_TIMEOUT_S, max_msg_size=MESSAGE_MAX_BYTES)
        self._sessions.add(page)
        dashboard = DashboardProcess(
            self._served.argv,
            self._served.environment,
            write_bytes=page.send_bytes,
            write_str=page.send_str,
            close=page.close,
            download_manager=self.download_manager,
        )
        try:
            await page.prepare(request)
            await dashboard.start(
                to_int(request.query.get("width", ""), 80), to_int(request.query.get("height", ""), 24)
            )
            with suppress(ConnectionError):  # the page went away
                async for message in page:
                    if message.type is WSMsgType.TEXT and not await taken(message.data, page, dashboard):
                        await page.close(code=WSCloseCode.UNSUPPORTED_DATA)
        finally:
            await dashboard.stop()
            self._sessions.discard(page)
        return page


class _Size(msgspec.Struct):
    width: int
    height: int


async def taken(text: str, page: web.WebSocketResponse, dashboard: DashboardProcess) -> bool:
    """Handles one message of textual.js: a list of its kind and its values. False if it is invalid."""
    try:
        kind, *rest = msgspec.json.decode(text, type=list[Any])
        match kind:
            case "stdin":
                await dashboard.send_bytes(msgspec.convert(rest[0], str).encode("utf-8", "replace"))
            case "resize":
                size = msgspec.convert(rest[0], _Size)
                await dashboard.set_terminal_size(size.width, size.height)
            case "ping":
                await page.send_json(["pong", msgspec.convert(rest[0], str)])
            case "focus":
                await dashboard.focus()
            case "blur":
                await dashboard.blur()
            case _:
                return False
    except (msgspec.DecodeError, ValueError, IndexError):  # also msgspec's ValidationError
        return False
    return True
