"""Ends a program that has changed its terminal's settings, when a signal says so or the terminal is gone. The terminal
is then as it was before: it echoes, shows its cursor, and sends no mouse events to the shell.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable
from threading import Thread, current_thread, main_thread
from types import FrameType, TracebackType
from typing import Any, Self

LEFT_WITHIN_S = 1.5
"""How long a dashboard may take to leave by itself."""

_WRITTEN_WITHIN_S = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_STAYS = 0
"""Written into the pipe when nothing is to be ended any more. No signal has this number."""

_PROMPT_RESETS = "\x1b[?2004l\x1b[?7h\x1b[0m\x1b[?25h"  # pasted text, line wrap, colours, cursor
_SCREEN_RESETS = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # the mouse
    "\x1b[?1004l\x1b[?2048l\x1b[<u"  # focus and new sizes are not told; keys as usual
    "\x1b[?1049l"  # the main screen
    f"{_PROMPT_RESETS}"
)

_is_guarded = False


def guard_terminal() -> None:
    """From now on, a signal that ends the process also restores the terminal's present settings. For what asks for a
    password, reads single keys, or edits a line. Does nothing without a terminal, or the second time."""
    global _is_guarded
    if _is_guarded or not sys.stdin.isatty() or current_thread() is not main_thread():
        return
    _is_guarded = True
    settings = termios.tcgetattr(sys.stdin.fileno())

    def end(number: int, frame: FrameType | None) -> None:
        _put_back(settings, _PROMPT_RESETS)
        os._exit(128 + number)

    _handle(_SIGNALS, end)


class TerminalGuard:
    """While it is entered, by the main thread, a signal ends the process with the status 128 + its number, and a
    terminal that is gone ends it as SIGHUP does, even if that signal is ignored."""

    status: int | None = None
    """The status to end with once the dashboard has left; None if nothing has asked for its end."""

    def __init__(self, leave: Callable[[], None]):
        """``leave``, called in a thread, asks the dashboard to leave and to put the terminal back. After
        ``LEFT_WITHIN_S``, that and the end of the process are no longer left to it."""
        self._leave = leave
        self._handlers: dict[int, Any] = {}
        self._settings: list[Any] | None = None
        self._pipe = (-1, -1)

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._settings = termios.tcgetattr(sys.stdin.fileno())
        self._pipe = os.pipe()
        Thread(target=self._wait, name="terminal guard", daemon=True).start()
        self._handlers = _handle((signal.SIGINT, *_SIGNALS), self._told)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Once the end was asked for, the guard stays on duty: what a thread does may hold up the end of the
        process."""
        if self.status is None:
            os.write(self._pipe[1], bytes([_STAYS]))
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _told(self, number: int, frame: FrameType | None) -> None:
        os.write(self._pipe[1], bytes([number]))

    def _wait(self) -> None:
        """Waits, in a thread, for a signal or for the end of the terminal, and ends the process."""
        poll, told = select.poll(), self._pipe[0]
        poll.register(told, select.POLLIN)
        if self._settings is not None:
            poll.register(sys.stdin.fileno(), 0)  # POLLHUP and POLLERR are always told
        number = int(signal.SIGHUP)
        if any(descriptor == told for descriptor, _ in poll.poll()):
            number = os.read(told, 1)[0]
        if number == _STAYS:
            return
        self.status = 128 + number
        self._leave()
        time.sleep(LEFT_WITHIN_S)  # the process ends meanwhile
        if self._settings is not None:
            _put_back(self._settings, _SCREEN_RESETS)
        os._exit(self.status)


def _handle(numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Handles the signals that are not ignored, as SIGHUP is under nohup. The handlers before."""
    wanted = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in wanted}


def _put_back(settings: list[Any], resets: str) -> None:
    """Restores the terminal. One that takes no output, or is gone, is left as it is."""
    terminal = sys.stdin.fileno()
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, settings)
        if select.select([], [terminal], [], _WRITTEN_WITHIN_S)[1]:
            os.write(terminal, f"{resets}\r\n".encode())
    except (OSError, termios.error):
        pass
