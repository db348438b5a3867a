"""Ends a program that has changed its terminal's settings, or has given the terminal to another program, when a signal
says so or the terminal is gone. The terminal is then as it was before: it echoes, shows its cursor, and sends no mouse
events to the shell.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Thread, current_thread, main_thread
from types import FrameType, TracebackType
from typing import Any, Self

LEFT_WITHIN_S = 1.5
"""How long a dashboard may take to leave by itself."""

_WRITTEN_WITHIN_S = 0.2
_ENDED_WITHIN_S = 1.0
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
        _put_back(settings, _PROMPT_RESETS, sys.stdin.fileno())
        os._exit(128 + number)

    _handle(_SIGNALS, end)


def run_in_terminal(command: Sequence[str]) -> int:
    """Runs a program that takes the terminal, such as an editor; its exit status. OSError if it cannot be started."""
    with terminal_program(command) as program:
        return program.wait()


@contextlib.contextmanager
def terminal_program(command: Sequence[str] | str, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A program that has the terminal, started like a Popen and waited for at the end. A signal that ends us ends it
    first, because nobody else would, restores the terminal's settings of before, and is told in one line. OSError if
    the program cannot be started."""
    terminal = next((number for number in (0, 1) if os.isatty(number)), None)
    if terminal is None or current_thread() is not main_thread():
        with subprocess.Popen(command, **options) as program:
            yield program
        return
    ending = _Ending(terminal)
    handlers = _handle(_SIGNALS, ending.told)
    try:
        with subprocess.Popen(command, **options) as program:
            ending.started(program.pid)
            yield program
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _Ending:
    """Handles signals while a program has the terminal, or is being started."""

    def __init__(self, terminal: int):
        self._terminal = terminal
        self._settings = termios.tcgetattr(terminal)
        self._pid: int | None = None
        self._told: int | None = None

    def started(self, pid: int) -> None:
        self._pid = pid
        if self._told is not None:
            self.told(self._told, None)

    def told(self, number: int, frame: FrameType | None) -> None:
        self._told = number
        if self._pid is None:
            return
        _end_program(self._pid)
        _put_back(self._settings, _SCREEN_RESETS, self._terminal)
        with contextlib.suppress(OSError):
            os.write(2, f"rmqadmin: ended by {signal.Signals(number).name}\n".encode())
        os._exit(128 + number)


def _end_program(pid: int) -> None:
    """Asks a child to end, and kills it if it does not. Not by its Popen, which may be waiting just now."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGTERM)
        until_s = time.monotonic() + _ENDED_WITHIN_S
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until_s:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.01)


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
            _put_back(self._settings, _SCREEN_RESETS, sys.stdin.fileno())
        os._exit(self.status)


def _handle(numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Handles the signals that are not ignored, as SIGHUP is under nohup. The handlers before."""
    wanted = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in wanted}


def _put_back(settings: list[Any], resets: str, terminal: int) -> None:
    """Restores the terminal. One that takes no output, or is gone, is left as it is."""
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, settings)
        if select.select([], [terminal], [], _WRITTEN_WITHIN_S)[1]:
            os.write(terminal, f"{resets}\r\n".encode())
    except (OSError, termios.error):
        pass
