"""Asks servers repeatedly without making a key wait. A feed belongs to a part of a screen. It has its own client, and a
task that runs its questions in a worker thread.

Refreshes never overlap: however many are wanted while one runs, one more follows. A feed that fails waits longer each
time and keeps the reason for the status line. The task runs in the event loop and puts the threads' results into
widgets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard_client import DashboardClient

P = ParamSpec("P")
T = TypeVar("T")

INTERVAL_DEFAULT_S = 2.0
INTERVALS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
BACKOFF_MAX_S = 60.0

REFRESH_DEADLINE_S = 10.0
"""The deadline of one whole refresh. It is longer than a request's, so that a silent broker is an error in its row and
does not end the refresh."""

FAILURES_COUNTED_MAX = 10
"""Limits the exponent of the wait, which has reached its maximum long before."""


class Feed:
    """One part of a screen. ``refresh`` is a coroutine function of the screen: it awaits ``feed.ask`` and fills
    widgets. ``changed`` is called in the loop whenever ``error``, ``updated_s`` or the wait changed."""

    def __init__(
        self,
        client: DashboardClient,
        refresh: Callable[[Feed], Awaitable[None]],
        changed: Callable[[], None],
        interval_s: Callable[[], float],
        *,
        deadline_s: float = REFRESH_DEADLINE_S,
    ):
        self.client = client
        self.error: str | None = None
        self.problems: list[str] = []
        """What the last refresh could not find out, although it succeeded."""
        self.updated_s: float | None = None
        """``time.monotonic()`` of the last refresh that succeeded."""
        self.next_s: float | None = None
        """When the next refresh begins; None while one runs."""
        self.failure_count = 0
        self._refresh = refresh
        self._changed = changed
        self._interval_s = interval_s
        self._refresh_deadline_s = deadline_s
        self._wanted = asyncio.Event()
        self._paused = self._once_anyway = False
        self._asking = False
        self._asking_lock = Lock()

    async def run(self) -> None:
        """Refreshes until cancelled."""
        try:
            while True:
                self._wanted.clear()
                if self._paused and not self._once_anyway:
                    await self._wanted.wait()
                    continue
                self._once_anyway = False
                await self._once()
                await self._wait()
        finally:
            self.stop()

    async def _once(self) -> None:
        self.next_s = None
        self.client.begin(self._refresh_deadline_s)
        try:
            await self._refresh(self)
        except RocketMQError as error:
            self._failed(str(error).partition("\n")[0])  # Apache's refusals go on with links to its pages
        except Exception as error:  # the outermost edge: the dashboard must not end
            self._failed(f"defect, {type(error).__name__}: {error}")
        else:
            self.error, self.failure_count, self.updated_s = None, 0, time.monotonic()
        self._changed()

    def _failed(self, reason: str) -> None:
        self.error = reason
        self.failure_count = min(self.failure_count + 1, FAILURES_COUNTED_MAX)

    async def _wait(self) -> None:
        wait_s = min(self._interval_s() * 2**self.failure_count, max(BACKOFF_MAX_S, self._interval_s()))
        self.next_s = time.monotonic() + wait_s
        try:
            async with asyncio.timeout(wait_s):
                await self._wanted.wait()
        except TimeoutError:
            pass

    async def ask(self, source: Callable[Concatenate[DashboardClient, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls ``source(client, …)`` in a worker thread and returns its result."""
        return await asyncio.to_thread(self._in_thread, partial(source, self.client, *args, **kwargs))

    def _in_thread(self, question: Callable[[], T]) -> T:
        with self._asking_lock:
            self._asking = True
        try:
            return question()
        finally:
            with self._asking_lock:
                self._asking = False
                if self.client.is_stopped:
                    self.client.close()

    def want(self, *, although_paused: bool = False) -> None:
        """Refreshes now, or again as soon as the running refresh is done."""
        self._once_anyway = self._once_anyway or although_paused
        self._wanted.set()

    def pause(self, paused: bool) -> None:
        """Pauses or resumes. While paused, nothing is asked, but a running refresh is finished."""
        self._paused = paused
        if not paused:
            self.want()

    def stop(self) -> None:
        """Wakes the thread that waits for an answer. The sockets are closed when that thread is done."""
        self.client.stop()
        with self._asking_lock:
            if not self._asking:
                self.client.close()
