"""The dashboard in a test: opened without a terminal, controlled by keys, its screen read as text."""

from __future__ import annotations

import asyncio
import re
import time
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any
from unittest.mock import patch

from rich.console import Console
from textual import events
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, key_to_character
from textual.message_pump import MessagePump
from textual.pilot import Pilot

from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.recording.replay import Replay
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.settings import ClientMaker, DashboardSettings
from rmqadmin.tui.widgets.tables.row_table import RowTable

UNTIL_TIMEOUT_S = 60.0
CLOSED_LOOK_S = 0.1
INTERVAL_S = 0.2
"""Short, because tests wait for the results of the next refresh."""

PAINTED_S, UNPAINTED_S = 0.02, 0.1
"""How soon to look again after something was painted, which may be the first of many things, and how soon without. A
look takes some 0.02 s itself."""

SIZE = (204, 24)

Driven = Callable[["Driver"], Awaitable[None]]


class Driver:
    """A running dashboard and its keys."""

    def __init__(self, app: DashboardApp, pilot: Pilot[None]):
        self.app, self.pilot = app, pilot
        self._painted = asyncio.Event()
        app.post_display_hook = self._painted.set  # type: ignore[method-assign]

    async def press(self, *keys: str) -> None:
        """Presses each key once the one before it has taken effect, and what it opened has the focus. Textual's pilot
        waits until the process is idle, but on a busy machine it also looks idle while it waits for the CPU."""
        for key in keys:
            receiver = self.app.focused or self.app.screen
            await self.pilot.press(key)
            await self._taken(receiver)

    async def _taken(self, receiver: DOMNode) -> None:
        """Waits until what was pressed has taken effect at its receiver, and then at what has the focus."""
        before = None
        while receiver is not before:
            await self.handled(receiver)
            before, receiver = receiver, self.app.focused or self.app.screen

    async def handled(self, receiver: DOMNode) -> None:
        """Waits until what was posted to a widget has taken effect."""
        for _ in range(2):  # messages that an action posts go the same way
            for pump in (self.app, *receiver.ancestors_with_self):
                await self._has_done(pump)

    async def _has_done(self, pump: MessagePump) -> None:
        """Waits until the pump has handled everything posted to it before, unless it is closed."""
        done = asyncio.Event()
        if pump.call_later(done.set):
            while not done.is_set() and pump.is_running:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSED_LOOK_S):
                        await done.wait()

    async def type(self, text: str, *, into: str) -> None:
        """Types once the input of that id has the focus: earlier keys may still be at work. Unlike after a key, nothing
        waits until the process is idle."""
        await self.until(lambda: self.app.focused is not None and self.app.focused.id == into)
        receiver = self.app.focused or self.app.screen
        for character in text:
            self.app.post_message(key_event(character))
        await self._taken(receiver)

    async def enter(self, text: str, *, into: str) -> None:
        await self.type(text, into=into)
        await self.press("enter")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Runs the dashboard until ``holds`` is true. AssertionError with the screen at the deadline."""
        deadline_s = time.monotonic() + UNTIL_TIMEOUT_S
        while not holds():
            assert time.monotonic() < deadline_s, f"not so after {UNTIL_TIMEOUT_S} s:\n{self.text}"
            self._painted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(UNPAINTED_S):
                    await self._painted.wait()
            await asyncio.sleep(PAINTED_S)

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without the signs before rows and without what is beside a list."""
        return [re.sub("^ *[✖▲●]", "", line).split("│")[0].rstrip() for line in self.text.splitlines()]

    async def until_shown(self, *texts: str) -> None:
        def are_shown() -> bool:
            screen = self.text
            return all(text in screen for text in texts)

        await self.until(are_shown)

    @property
    def text(self) -> str:
        """The text on the screen."""
        return screen_text(self.app)


def key_event(key: str) -> events.Key:
    """``key``: a key by its name, or a character."""
    if len(key) != 1 or key.isalnum():
        return events.Key(key, key_to_character(key))
    name = unicodedata.name(key).lower().replace("-", "_").replace(" ", "_")
    return events.Key(KEY_NAME_REPLACEMENTS.get(name, name), key)


def screen_text(app: DashboardApp) -> str:
    """The terminal's text, without colours and trailing blanks."""
    return "".join(f"{line.rstrip()}\n" for line in screen_picture(app, styles=False).splitlines())


def screen_picture(app: DashboardApp, *, styles: bool) -> str:
    """What a terminal would show, with a dialog and the screen below it. With styles, as ANSI sequences."""
    with patch.object(Console, "export_svg", lambda console, **_: console.export_text(styles=styles)):
        return app.export_screenshot()


def without_ages(text: str) -> str:
    """The text with the ages masked, which depend on the machine's speed."""
    return re.sub(r"(paused |· )\d+( s|m\d+s)", r"\1N s", text)


def drive(make_client: ClientMaker, test: Driven, *, size: tuple[int, int] = SIZE, **settings: Any) -> None:
    """Runs a dashboard and a test on it."""

    async def run() -> None:
        async with opened(make_client, size=size, **settings) as driver:
            await test(driver)

    run_eagerly(run())


def run_eagerly(test: Coroutine[Any, Any, None]) -> None:
    """From Python 3.12 on, Textual has tasks begin at once in a terminal, but not in its tests."""

    async def run() -> None:
        eager = getattr(asyncio, "eager_task_factory", None)
        if eager is not None:
            asyncio.get_running_loop().set_task_factory(eager)
        await test

    asyncio.run(run())


@asynccontextmanager
async def opened(
    make_client: ClientMaker,
    *,
    size: tuple[int, int] = SIZE,
    now_ms: int | None = None,
    clock: Callable[[], int] | None = None,
    replay: Replay | None = None,
    **settings: Any,
) -> AsyncIterator[Driver]:
    """``now_ms`` is the time of a clock that stands still, ``clock`` a clock that the test moves. ``replay`` takes the
    place of servers."""
    if clock is None:
        clock = (lambda: time.time_ns() // 1_000_000) if now_ms is None else (lambda: now_ms)
    settings.setdefault("interval_s", INTERVAL_S)
    with make_client(read_only=True) as client:
        namesrv_text = ";".join(client.namesrv_addrs)
    app = DashboardApp(DashboardSettings(namesrv_text, make_client, clock, **settings), replay)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield Driver(app, pilot)


def clients_of(namesrv_addr: str) -> ClientMaker:
    def make(*, read_only: bool) -> DashboardClient:
        return DashboardClient(namesrv_addr, None, 5.0, read_only=read_only)

    return make


async def put_cursor(driver: Driver, key: str) -> None:
    """Puts the cursor on the row of that key once the row is there. Another test covers the arrow keys."""

    def is_there() -> bool:
        tables = driver.app.screen.query(RowTable)
        if not tables:
            return False
        tables.first().move_to(key)
        return tables.first().cursor_key == key

    await driver.until(is_there)


async def at_row(driver: Driver, place: str, row: str, *keys: str) -> None:
    """Opens a place by its key, puts the cursor on a row there, and presses what follows."""
    await driver.press(place)
    await put_cursor(driver, row)
    await driver.press(*keys)


def line_of(driver: Driver, *texts: str) -> str:
    """The first line with all these texts."""
    return next((line for line in driver.lines if all(text in line for text in texts)), "")


def row_of(driver: Driver, word: str) -> str:
    """The first line with this word."""
    return next((line for line in driver.lines if word in line.split()), "")


def status(driver: Driver) -> str:
    """The lines above the keys."""
    return " ".join(line.strip() for line in driver.text.splitlines()[-3:-1])


async def until_in_index(driver: Driver, text: str) -> None:
    """Waits until a search shows the text. A message that was just sent may not be in the index yet, so the search is
    repeated."""

    def is_there() -> bool:
        shown = driver.text
        if "matched 0," in shown and isinstance(driver.app.screen, DashboardScreen):
            driver.app.screen.action_refresh_now()
        return text in shown

    await driver.until(is_there)


async def put_cursor_at(driver: Driver, at: int) -> None:
    """Puts the cursor on the row of that number, from 0, once the row is there and its table has the focus."""

    def is_there() -> bool:
        table = driver.app.focused
        if not isinstance(table, RowTable) or table.all_count <= at:
            return False
        key = table.row_keys()[at]
        table.move_to(key)
        return table.cursor_key == key

    await driver.until(is_there)
