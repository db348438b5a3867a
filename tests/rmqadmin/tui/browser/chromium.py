"""A headless Chromium, driven by its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.rmqadmin.tui.browser.served import TIMEOUT_S

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_KEY_CODES = {"Enter": 13, "Escape": 27, "ArrowDown": 40}
_CONTROL = 2
"""DevTools' code of the control key."""


class Page:
    """The browser's one page. ``painted`` holds the text that its websocket received since the last key, ``asked`` the
    addresses that it loaded."""

    def __init__(self, devtools: aiohttp.ClientWebSocketResponse):
        self._devtools = devtools
        self._number = 0
        self.painted = ""
        self.asked: list[str] = []
        self.errors: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._devtools.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            told = await self._next()
            if told.get("id") == self._number:
                assert "error" not in told, told
                return dict(told["result"])

    async def _next(self) -> dict[str, Any]:
        told: dict[str, Any] = await self._devtools.receive_json(timeout=TIMEOUT_S)
        parameters = told.get("params", {})
        match told.get("method"):
            case "Network.webSocketFrameReceived" if parameters["response"]["opcode"] == 2:
                self.painted += base64.b64decode(parameters["response"]["payloadData"]).decode()
            case "Network.requestWillBeSent":
                self.asked.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"]))
        return told

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def until_painted(self, *texts: str) -> None:
        """Waits until all texts have been painted since the last key. AssertionError with what was painted instead. The
        time limit covers the whole wait: a dashboard never stops painting, so no single wait for a frame would time
        out."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not all(text in self.painted for text in texts):
                    await self._next()
        except TimeoutError:
            missing = [text for text in texts if text not in self.painted]
            raise AssertionError(f"not painted: {missing}; but {self.painted[-2000:]!r}") from None

    async def until(self, expression: str) -> None:
        """Waits until the JavaScript expression is true."""
        async with asyncio.timeout(TIMEOUT_S):
            while not await self.value(expression):
                await asyncio.sleep(0.05)

    async def value(self, expression: str) -> Any:
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return told["result"].get("value")

    async def press(self, *keys: str, control: bool = False) -> None:
        for key in keys:
            self.painted = ""
            code = _KEY_CODES.get(key, ord(key[0].upper()))
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 and not control else "")
            options = {"key": key, "windowsVirtualKeyCode": code, "modifiers": _CONTROL if control else 0}
            await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **options)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **options)

    async def picture(self) -> bytes:
        """A screenshot as PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])


@asynccontextmanager
async def browsing(folder: Path, size: tuple[int, int]) -> AsyncIterator[Page]:
    """A browser with a window of ``size`` pixels. FileNotFoundError if there is no Chromium."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        raise FileNotFoundError(f"none of {', '.join(PROGRAMS)} is on the PATH")
    options = [
        "--headless", "--no-sandbox", "--hide-scrollbars", "--enable-unsafe-swiftshader", "--remote-debugging-port=0",
        f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}", "about:blank",
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        program, *options, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not (told := re.search(rb"ws://([\d.:]+)/", await process.stderr.readline())):
                pass
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{told[1].decode()}/json") as answer:
                url = next(one["webSocketDebuggerUrl"] for one in await answer.json() if one["type"] == "page")
            async with session.ws_connect(url, max_msg_size=0) as devtools:
                page = Page(devtools)
                yield page
                await page.call("Browser.close")
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Waits for the browser's end. The program on the PATH may be a script with the browser as its child, so all
    processes of its session are killed if it does not end. Otherwise the test would wait forever for the end of its
    standard error."""
    try:
        async with asyncio.timeout(TIMEOUT_S / 4):
            await process.wait()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
