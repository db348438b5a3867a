"""One dashboard of one page: a program of its own, which a defect or a large body in another one does not touch."""

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
"""A dashboard that does not end by then is killed."""

WIDTH_MAX, HEIGHT_MAX = 1000, 500
"""A page may ask for no larger a terminal: each cell takes memory."""


class DashboardProcess(AppService):
    """textual-serve's, without a shell between: ``argv`` and ``environment`` are handed over as they are, and the
    program and what it starts are a group of their own, which is ended whole."""

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

    async def set_terminal_size(self, width: int, height: int) -> None:
        await super().set_terminal_size(*fitting(width, height))

    async def stop(self) -> None:
        """Asks it to end, and sees to it. For any number of times."""
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
