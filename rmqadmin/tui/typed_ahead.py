"""Holds back keys that are typed faster than screens open. Textual gives each key at once to the widget that has the
focus: a key right after one that opens a screen would go to the old screen and be lost there.

So the next key is given out when the previous one has done its work and what it opened has the focus. No clock is
needed: a callback that follows the key through the same queues runs when they have handled the key.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.widgets import Input

from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.widgets.tables.row_table import MOVING_KEYS, RowTable

HELD_MAX_S = 2.0
"""How long keys wait for a screen to open. After that they go to whatever has the focus, so that the user can still
leave."""

TURNS_MORE = 500
"""How many turns of the loop they wait beyond that. On a very busy machine two seconds may pass within a few turns:
then ``tab`` had not moved the focus yet, and what was typed behind it went into the wrong line. What waits for a server
is not done after any number of turns, which take milliseconds then."""

ROWS_MAX_S = 1.0
"""How long keys wait for the first row of an opened screen. After that they are given out without it."""

Typed = events.Key | events.Paste


class TypedAhead:
    """The app calls ``holds`` for each key that comes, and ``given`` for each key that it has given out."""

    def __init__(self, app: App[Any]):
        self._app = app
        self._held: deque[Typed] = deque()
        self._let_go: deque[Typed] = deque()
        """Keys that were posted back to the app."""
        self._waiting: asyncio.Task[None] | None = None
        self._openings: list[asyncio.Event] = []

    @property
    def is_free(self) -> bool:
        """Whether the next key would be given out at once."""
        return self._waiting is None and not self._let_go

    def holds(self, typed: Typed) -> bool:
        """Whether the key has to wait. It is then posted to the app again later."""
        if self._let_go and typed is self._let_go[0]:
            self._let_go.popleft()
            return False
        if self.is_free:
            return False
        self._held.append(typed)
        return True

    def given(self, typed: Typed, receiver: DOMNode) -> None:
        """Notes that a key was given out; ``receiver`` had the focus."""
        if self._let_go:
            return  # the keys waited too long, and the next one comes right behind
        if _opens_nothing(typed, receiver):
            self._let_next_go()
        else:
            self._waiting = asyncio.create_task(self._wait(receiver), name="typed ahead")

    def opening(self, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Wraps ``work``, which opens something in the end but is in no queue. Keys wait from now on until it is
        done."""
        is_open = asyncio.Event()
        self._openings.append(is_open)

        async def open_it() -> None:
            try:
                await work()
            finally:
                is_open.set()

        return open_it

    def end(self) -> None:
        """Forgets all held keys, because the dashboard ends."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def _wait(self, receiver: DOMNode) -> None:
        try:
            await _finished(self._until_worked_off(receiver))
            await self._until_there_are_rows()
        except TimeoutError:
            self._openings.clear()
            self._let_go.extend(self._held)
            self._held.clear()
            for typed in self._let_go:
                self._app.post_message(typed)
        finally:
            self._waiting = None
        self._let_next_go()

    async def _until_there_are_rows(self) -> None:
        """Waits for the first rows of a new screen if a key is held: it may be meant for the first row."""
        screen = self._app.screen
        if self._held and isinstance(screen, DashboardScreen) and isinstance(screen.focused, RowTable):
            with suppress(TimeoutError):
                async with asyncio.timeout(ROWS_MAX_S):
                    await screen.answered.wait()
            screen.answered.set()

    async def _until_worked_off(self, receiver: DOMNode) -> None:
        """Waits once for the key and once more for what its action posted, then for each widget that gets the focus
        until the focus stays."""
        await _once_around(receiver)
        while True:
            await _once_around(receiver)
            while self._openings:
                await self._openings[0].wait()
                self._openings.pop(0)
            before, receiver = receiver, self._app.focused or self._app.screen
            if receiver is before:
                return

    def _let_next_go(self) -> None:
        if self._held:
            self._let_go.append(self._held.popleft())
            self._app.post_message(self._let_go[0])


def _opens_nothing(typed: Typed, receiver: DOMNode) -> bool:
    """Whether a key only types into a line or moves the cursor of a table. Such keys need not wait for each other."""
    if isinstance(receiver, Input):
        return isinstance(typed, events.Paste) or typed.is_printable
    return isinstance(receiver, RowTable) and isinstance(typed, events.Key) and typed.key in MOVING_KEYS


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Waits until ``work`` is done. TimeoutError after HELD_MAX_S and TURNS_MORE."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task], timeout=HELD_MAX_S)
        for _ in range(TURNS_MORE):
            if task.done():
                return task.result()
            await asyncio.sleep(0)
        raise TimeoutError
    finally:
        task.cancel()


async def _once_around(receiver: DOMNode) -> None:
    """Follows the path of a key from ``receiver`` up to the app, and waits at each node until it has handled everything
    posted before. A screen that is being mounted handles nothing until its widgets exist."""
    for node in receiver.ancestors_with_self:
        is_done = asyncio.Event()
        if node.call_later(is_done.set):  # False if it is closed
            await is_done.wait()
