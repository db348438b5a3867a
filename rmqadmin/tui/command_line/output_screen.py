"""The output of a command of rmqadmin, as it comes. The command is a process of its own, which cannot block the
dashboard or write over it. It has a terminal as wide as the screen, and no input."""

from __future__ import annotations

import codecs
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import RichLog, Static

from rmqadmin.core.terminal_text import printable
from rmqadmin.tui.command_line.row_command import RowCommand
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.until_closed import while_mounted

OUTPUT_MAX_BYTES = 1024 * 1024
"""The most output that is shown; then the program is stopped."""

_READ_BYTES = 65536
_PLAIN = {"NO_COLOR": "1", "RMQADMIN_PAGER": "cat", "TERM": "dumb"}
_SCROLL_BAR_WIDTH = 2


class ProgramRun:
    """One run of rmqadmin with these words. Any thread may call ``stop``."""

    def __init__(self, words: list[str], environment: dict[str, str]):
        """OSError if it cannot be started."""
        self._terminal, inside = pty.openpty()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rmqadmin", *words],
                stdin=subprocess.DEVNULL,
                stdout=inside,
                stderr=inside,
                env={**os.environ, **_PLAIN, **environment},
                start_new_session=True,
            )
        except OSError:
            os.close(self._terminal)
            raise
        finally:
            os.close(inside)

    def stop(self) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def lines(self) -> Iterable[list[str]]:
        """Yields whole lines as they come, until the program has ended or written too much. Blocks."""
        decoder, rest, size_bytes = codecs.getincrementaldecoder("utf-8")("replace"), "", 0
        with os.fdopen(self._terminal, "rb", buffering=0) as terminal:
            while size_bytes < OUTPUT_MAX_BYTES:
                try:
                    data = terminal.read(_READ_BYTES)
                except OSError:  # the terminal has no writer left
                    break
                size_bytes += len(data)
                *lines, rest = (rest + decoder.decode(data)).split("\n")
                if lines:
                    yield [printable(line.removesuffix("\r")) for line in lines]
        if size_bytes >= OUTPUT_MAX_BYTES:
            self.stop()
            rest = f"stopped after {OUTPUT_MAX_BYTES >> 20} MiB"
        if rest:
            yield [printable(rest)]

    def wait(self) -> int:
        """The exit status, which is negative after a signal."""
        return self._process.wait()


class CommandOutputScreen(DashboardScreen):
    """Runs the command when opened, and again on refresh. Closing the screen ends the command."""

    file_name = "output"
    AUTO_FOCUS = "RichLog"
    BINDINGS: ClassVar[list[BindingType]] = [bound("shell", "copy_line", "Copy the line")]

    class Came(Message):
        """Lines came, or, with ``status``, the program has ended."""

        def __init__(self, run: ProgramRun, lines: list[str], status: int | None = None):
            super().__init__()
            self.program, self.lines, self.status = run, lines, status

    def __init__(self, command: RowCommand):
        super().__init__()
        self._command = command
        self.step = command.name
        self._program: ProgramRun | None = None
        self._status: int | None = None

    def body(self) -> Iterable[Widget]:
        yield Static(literal(self._line, "bold"), classes="facts")
        if self._command.is_dry_run:
            told = "A dry run: nothing was changed. In a shell, the line above does it; ^y copies it."
            yield Static(literal(told, "$text-warning"), classes="facts")
        yield RichLog(id="output", wrap=True, min_width=0, auto_scroll=False)

    @property
    def _line(self) -> str:
        """What does the same in a shell, but without a dry run."""
        reach = self.dashboard.settings.reach
        return self._command.line([] if reach is None else reach.words)

    def on_mount(self) -> None:
        self.call_after_refresh(self.action_refresh_now)

    def on_unmount(self) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._program is not None:
            self._program.stop()

    @while_mounted
    def action_refresh_now(self) -> None:
        self._stop()
        output, reach = self.query_one(RichLog).clear(), self.dashboard.settings.reach
        words, environment = ([], {}) if reach is None else (reach.words, reach.environment)
        self._status = None
        width = max(1, output.size.width - _SCROLL_BAR_WIDTH)
        try:
            self._program = ProgramRun(self._command.run_words(words), {**environment, "COLUMNS": str(width)})
        except OSError as error:
            self.dashboard.say(str(error), is_error=True)
            return
        program = self._program
        self.run_worker(lambda: self._read(program), thread=True, group="program")
        self.show_frame()

    def _read(self, program: ProgramRun) -> None:
        """Called in a thread."""
        for lines in program.lines():
            self.post_message(self.Came(program, lines))
        self.post_message(self.Came(program, [], program.wait()))

    def on_command_output_screen_came(self, event: Came) -> None:
        if event.program is not self._program:  # it was started again
            return
        if event.lines:
            self.query_one(RichLog).write(Text("\n".join(event.lines)))
        self._status = event.status
        self.show_frame()

    def make_feeds(self) -> tuple[()]:
        """None: nothing is asked."""
        return ()

    def rows_text(self) -> str:
        return "running" if self._status is None else f"status {self._status}"

    def interval_s(self) -> None:
        """None: the command only runs on request."""

    def action_copy_line(self) -> None:
        """Copies the line to the terminal's clipboard, if programs may write to it."""
        self.app.copy_to_clipboard(self._line)
        self.dashboard.say(f"copied {self._line}")
