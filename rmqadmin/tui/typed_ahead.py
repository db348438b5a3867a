"""Keys that are typed faster than what they open can open. Textual hands each key, as it comes, to what has the keys at
that moment: a key behind one that opens a screen would go to the screen before it, and be lost there.

So the next key is given out when the one before it has done its work, and what it opened has the keys. That is known
without a clock: a note that follows the key through the same queues comes back when they have worked the key off.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.widgets import Input

from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.widgets.row_table import MOVING_KEYS, RowTable

HELD_MAX_S = 2.0
"""For what a key opens. Then keys go to what has them, so that the dashboard can still be left."""

ROWS_MAX_S = 1.0
"""For the first row of what has been opened. Then keys do without, one after the other."""

Typed = events.Key | events.Paste


class TypedAhead:
    """The app asks ``holds`` of each key that comes, and tells by ``given`` when it has given one out."""

    def __init__(self, app: App[Any]):
        self._app = app
        self._held: deque[Typed] = deque()
        self._let_go: deque[Typed] = deque()
        """On their way back to the app."""
        self._waiting: asyncio.Task[None] | None = None
        self._openings: list[asyncio.Event] = []

    @property
    def is_free(self) -> bool:
        """Whether a key that comes now is given out at once."""
        return self._waiting is None and not self._let_go

    def holds(self, typed: Typed) -> bool:
        """Whether it has to wait. Then it comes to the app again."""
        if self._let_go and typed is self._let_go[0]:
            self._let_go.popleft()
            return False
        if self.is_free:
            return False
        self._held.append(typed)
        return True

    def given(self, typed: Typed, receiver: DOMNode) -> None:
        """``receiver`` had the keys."""
        if self._let_go:
            return  # patience is over, and the next one is right behind
        if _opens_nothing(typed, receiver):
            self._let_next_go()
        else:
            self._waiting = asyncio.create_task(self._wait(receiver), name="typed ahead")

    def opening(self, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """``work``, which the queues do not know of and which opens something in the end: keys wait from now on."""
        is_open = asyncio.Event()
        self._openings.append(is_open)

        async def open_it() -> None:
            try:
                await work()
            finally:
                is_open.set()

        return open_it

    def end(self) -> None:
        """The dashboard ends: whatever is held is of no use any more."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def _wait(self, receiver: DOMNode) -> None:
        try:
            async with asyncio.timeout(HELD_MAX_S):
                await self._until_worked_off(receiver)
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
        """Of a new screen, if a key was typed before that could be seen: it may be meant for the row that comes
        first."""
        screen = self._app.screen
        if self._held and isinstance(screen, DashboardScreen) and isinstance(screen.focused, RowTable):
            with suppress(TimeoutError):
                async with asyncio.timeout(ROWS_MAX_S):
                    await screen.answered.wait()
            screen.answered.set()

    async def _until_worked_off(self, receiver: DOMNode) -> None:
        """Once around for the key, and once more for what its action has posted; then around whatever has the keys by
        now, until that stays."""
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
    """Such keys need not wait for each other: what is typed into a line, and what only moves the cursor of a table."""
    if isinstance(receiver, Input):
        return isinstance(typed, events.Paste) or typed.is_printable
    return isinstance(receiver, RowTable) and isinstance(typed, events.Key) and typed.key in MOVING_KEYS


async def _once_around(receiver: DOMNode) -> None:
    """The way of a key: from what has it up to the app, each of them when it has done all that was posted before. A
    screen that is being mounted has done nothing until its widgets are there."""
    for node in receiver.ancestors_with_self:
        is_done = asyncio.Event()
        if node.call_later(is_done.set):  # otherwise it is closed
            await is_done.wait()
