"""The program behind a page of the browser."""

from __future__ import annotations

import asyncio
import sys

import pytest
from textual_serve.download_manager import DownloadManager

from rmqadmin.tui.browser.browser_server import DashboardProcess
from tests.rmqadmin.tui.browser.served import TIMEOUT_S

_GREETING = r"__GANGLION__\n"
_KILLED = f"import os, sys; sys.stdout.write('{_GREETING}'); sys.stdout.flush(); os.kill(os.getpid(), 9)"


@pytest.mark.parametrize("program", [_KILLED, "raise SystemExit(2)"], ids=["killed", "not started"])
def test_the_page_is_closed_when_the_program_ends_without_a_word(program: str) -> None:
    async def look() -> None:
        closed = asyncio.Event()

        async def send(_: object) -> None:
            pass

        async def close() -> None:
            closed.set()

        dashboard = DashboardProcess(
            [sys.executable, "-S", "-c", program], {}, write_bytes=send, write_str=send, close=close,
            download_manager=DownloadManager(),
        )  # fmt: skip
        await dashboard.start(80, 24)
        async with asyncio.timeout(TIMEOUT_S):
            await closed.wait()
            await dashboard.stop()

    asyncio.run(look())
