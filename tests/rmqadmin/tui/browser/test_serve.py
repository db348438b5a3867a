"""The dashboard for browsers, asked over HTTP and a websocket as a browser does."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import aiohttp
import pytest

from rmqadmin.cli import program
from rmqadmin.tui.browser.browser_server import HEIGHT_MAX, WIDTH_MAX, fitting, taken
from tests.rmqadmin.tui.browser.served import TIMEOUT_S, Served, serving
from tests.support.quick import in_one_test
from tests.support.servers import Server

SECRET = "not-for-the-list-of-processes"


def test_from_the_token_to_ctrl_c(server: Server, tmp_path: Path) -> None:
    """One server and one dashboard for all checks, because each costs as much as a program does."""

    async def browse(served: Served) -> None:
        timeout = aiohttp.ClientTimeout(TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            await refused(browser, served)
            assert served.dashboards() == []
            await page_is_whole(browser, served)
            await dashboard_is_live_until_ctrl_c(browser, served)

    keys = ("--access-key", "somebody", "--secret-key", SECRET)
    with serving(server.namesrv_addr, tmp_path, *keys) as served:
        asyncio.run(browse(served))


async def refused(browser: aiohttp.ClientSession, served: Served) -> None:
    """Requests without the token, and requests with it from another site's page."""
    token = served.url.partition("?")[2]
    host = served.address.split("/")[2]
    for path, headers in (
        ("", {}),
        ("?token=wrong", {}),
        ("static/js/textual.js", {}),
        ("download/any", {}),
        ("ws", {}),
        ("ws?token=wrong", {"Origin": f"http://{host}"}),
        (f"ws?{token}", {"Origin": "http://rebound.example"}),
        (f"?{token}", {"Host": "rebound.example"}),
        (f"ws?{token}", {"Host": "rebound.example", "Origin": "http://rebound.example"}),
    ):
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        sent = {**headers, **(upgrade | key if path.startswith("ws") else {})}
        async with browser.get(served.address + path, headers=sent) as answer:
            assert answer.status == 403, (path, headers)
            assert not answer.cookies


async def page_is_whole(browser: aiohttp.ClientSession, served: Served) -> None:
    """The page loads nothing from elsewhere. Its token becomes a cookie that scripts cannot read and other sites cannot
    send."""
    async with browser.get(served.url) as answer:
        assert answer.status == 200
        text, policy = await answer.text(), answer.headers["Content-Security-Policy"]
        (cookie,) = answer.cookies.values()
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    assert "default-src 'none'" in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert not re.findall(r"https?://", text)
    for path in {*re.findall(r"static/[\w./-]+", text)}:
        async with browser.get(served.address + path) as answer:
            assert answer.status == 200, path


async def dashboard_is_live_until_ctrl_c(browser: aiohttp.ClientSession, served: Served) -> None:
    origin = served.address.rstrip("/")
    async with browser.ws_connect(f"{served.address}ws?width=140&height=30", origin=origin) as page:
        await until_painted(page, "read-only", "broker-a")
        for keys, shown in (("t", "Topics"), ("/", "regular expression"), ("sought", "filter sought")):
            await page.send_json(["stdin", keys])
            await until_painted(page, shown)
        (dashboard,) = served.dashboards()
        started_with = Path(f"/proc/{dashboard}/cmdline").read_text().split("\0")
        assert "--read-only" in started_with
        assert SECRET not in started_with
        assert f"SECRET_KEY={SECRET}" in Path(f"/proc/{dashboard}/environ").read_text()
        assert await asyncio.to_thread(served.end) == 0
        while (message := await page.receive()).type != aiohttp.WSMsgType.CLOSE:
            assert message.type is aiohttp.WSMsgType.BINARY
        assert message.data == aiohttp.WSCloseCode.GOING_AWAY
    assert not Path(f"/proc/{dashboard}").exists()


async def until_painted(page: aiohttp.ClientWebSocketResponse, *texts: str) -> None:
    painted = ""
    while not all(text in painted for text in texts):
        painted += (await page.receive_bytes()).decode(errors="replace")  # a frame may end within a character


@pytest.mark.slow
def test_a_dashboard_does_not_outlive_a_server_that_is_killed(server: Server, tmp_path: Path) -> None:
    """A killed server cannot end its dashboards, so each dashboard watches for its server's end."""

    async def browse(served: Served) -> None:
        timeout, url = aiohttp.ClientTimeout(TIMEOUT_S), served.url.replace("?", "ws?")
        async with aiohttp.ClientSession(timeout=timeout) as browser, browser.ws_connect(url) as page:
            painted = b""
            while b"read-only" not in painted:
                painted += await page.receive_bytes()
            (dashboard,) = served.dashboards()
            served.process.kill()
            async with asyncio.timeout(TIMEOUT_S):
                while runs(dashboard):
                    await asyncio.sleep(0.05)

    with serving(server.namesrv_addr, tmp_path) as served:
        asyncio.run(browse(served))


def runs(process_id: int) -> bool:
    """Whether the process runs. A process that has ended but has not been waited for has no command line."""
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes() != b""
    except (FileNotFoundError, ProcessLookupError):
        return False


class Pressed:
    """Records the effects of a page's messages."""

    def __init__(self) -> None:
        self.done: list[object] = []

    async def send_bytes(self, data: bytes) -> None:
        self.done.append(data)

    async def set_terminal_size(self, width: int, height: int) -> None:
        self.done.append((width, height))

    async def focus(self) -> None:
        self.done.append("focus")

    async def send_json(self, value: object) -> None:
        self.done.append(value)


def test_messages_of_a_page() -> None:
    pressed = Pressed()
    for text in (
        '["stdin", "q\\u00e9"]', '["resize", {"width": 100, "height": 30}]', '["ping", "12"]', '["focus"]'
    ):  # fmt: skip
        assert asyncio.run(taken(text, pressed, pressed)), text
    assert pressed.done == ["qé".encode(), (100, 30), ["pong", "12"], "focus"]


@in_one_test(
    "",
    "{}",
    "[]",
    '["stdin"]',
    '["stdin", 1]',
    '["resize", {"width": "all"}]',
    '["resize", {}]',
    '["else", 1]',
    "[1]",
)
def test_what_is_no_message_of_a_page(text: str) -> None:
    pressed = Pressed()
    assert not asyncio.run(taken(text, pressed, pressed))
    assert pressed.done == []


def test_a_page_cannot_ask_for_a_terminal_without_end() -> None:
    assert fitting(10**9, 10**9) == (WIDTH_MAX, HEIGHT_MAX)
    assert fitting(0, -5) == (1, 1)


@in_one_test(
    ["--port", "8188"],
    ["--host", "127.0.0.1"],
    ["--write"],
    ["--serve", "--record", "new"],
    ["--serve", "--write", "--read-only"],
    ["--serve", "-n", "nonsense:x"],
    ["--serve", "--access-key", "half-a-pair"],
    ["--serve", "--host", "192.0.2.1"],
)
def test_what_is_wrong_with_the_options_is_said_before_it_serves(options: list[str]) -> None:
    assert program.run(["tui", *(["-n", "127.0.0.1:1"] if "-n" not in options else []), *options]) == 2


def test_without_its_extra_it_says_which_that_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in [name for name in sys.modules if name.startswith("rmqadmin.tui.browser.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert program.run(["tui", "--serve", "-n", "127.0.0.1:1"]) == 2
    assert "rmqadmin[serve]" in capsys.readouterr().err
