"""The output of a command line of rmqadmin, as it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from itertools import takewhile
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.messages.body_text import text_lines
from rmqadmin.core.units import elapsed
from rmqadmin.tui.command_line.program_run import OUTPUT_MAX_BYTES, ProgramRun
from rmqadmin.tui.command_line.understood import CommandAsked
from rmqadmin.tui.literal import literal
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.until_closed import until_closed
from rmqadmin.tui.widgets.texts.lines import Text, TextLines

_LOOK_S = 0.2
_LINES_HEIGHT_MIN = 10


class CommandOutputScreen(DashboardScreen):
    """Runs the command when opened, and again on refresh. Closing the screen ends the command."""

    file_name = "output"
    AUTO_FOCUS = "#output"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy_line", "Copy the line", id="output.copy"),
        Binding("w", "wrap", "Wrap", id="output.wrap"),
    ]

    def __init__(self, asked: CommandAsked):
        super().__init__()
        self._asked = asked
        self.step = " ".join(takewhile(lambda word: not word.startswith("-"), asked.words[:2]))
        self._run: ProgramRun | None = None
        self._begun_s = time.monotonic()
        self._ended_s: float | None = None
        self._output = TextLines(Text.of([]), id="output")

    def body(self) -> Iterable[Widget]:
        yield Static(literal(self._asked.line, "bold"), classes="facts")
        if self._asked.is_dry_run:
            told = "A dry run: nothing was changed. In a shell, the line above does it; y copies it."
            yield Static(literal(told, "$text-warning"), classes="facts")
        yield self._output

    def on_mount(self) -> None:
        self.call_after_refresh(self.action_refresh_now)

    def on_unmount(self) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._run is not None:
            self._run.stop()

    def action_refresh_now(self) -> None:
        self._stop()
        self.run_worker(until_closed(self, self._work), group="program")

    async def _work(self) -> None:
        size, reach = self._output.size, self.dashboard.settings.reach
        self._run = run = ProgramRun(
            self._asked.words,
            reach.environment if reach is not None else {},
            max(1, size.width - self._output.gutter.width),
            max(_LINES_HEIGHT_MIN, size.height),
        )
        self._begun_s, self._ended_s = time.monotonic(), None
        ending = asyncio.create_task(asyncio.to_thread(run.run))
        shown = None
        try:
            while not ending.done():
                await asyncio.wait({ending}, timeout=_LOOK_S)
                if run is not self._run:  # it was started again
                    return
                if run.text != shown:
                    shown = run.text
                    await self._show(shown)
                self.show_status()
        finally:
            run.stop()
        self._ended_s = time.monotonic()
        if error := ending.exception():
            await self._show(str(error))
        if error or run.status:  # the reason for a failure must be visible without a key
            await self._output.wrap(True)
        self.show_status()

    async def _show(self, text: str) -> None:
        self._output.show(await asyncio.to_thread(_text_of, text), keeps_place=True)

    def rows_text(self) -> str:
        run = self._run
        took = elapsed(((self._ended_s or time.monotonic()) - self._begun_s) * 1000)
        if run is None or run.status is None or self._ended_s is None:
            return f"running, {took}"
        cut = f", stopped after {OUTPUT_MAX_BYTES >> 20} MiB" if run.was_cut else ""
        return f"status {run.status}, {took}{cut}"

    def interval_s(self) -> None:
        """None: the command only runs on request."""

    async def action_wrap(self) -> None:
        await self._output.wrap(not self._output.is_wrapped)

    def action_copy_line(self) -> None:
        """Copies the line to the terminal's clipboard, if programs may write to it."""
        self.app.copy_to_clipboard(self._asked.line)
        self.dashboard.say(f"copied {self._asked.line}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action == "filter" else super().check_action(action, parameters)


def _text_of(text: str) -> Text:
    """The output as lines. Called in a thread."""
    return Text.of(text_lines(text.rstrip("\n").encode()))
