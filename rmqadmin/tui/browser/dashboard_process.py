"""The dashboard of one page: a separate process, so that a defect or a large body in another dashboard does not affect
it."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

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
