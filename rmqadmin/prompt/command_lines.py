"""Runs the lines of a shell, one after the other, in this process.

A command finds the process as the one before it found it: its streams, the terminal's settings and the handler of
Ctrl-C are put back. What is behind ``|``, and a line that begins with ``!``, is sh's.
"""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator

from rmqadmin import cli, diagnostics
from rmqadmin.exit_codes import ExitCode
from rmqadmin.invocation import Invocation
from rmqadmin.prompt.line import TypedLine, parse_line
from rmqadmin.version import PIPE_CLOSED
from rmqproto.errors import UsageError

PROGRAM_MARK = "!"
LAST_WORDS = ("exit", "quit")


class ShellEnd(Exception):
    """The line was ``exit``."""


class CommandLines:
    """``before`` is what every line inherits; its session keeps what stays between them."""

    def __init__(self, before: Invocation):
        self.before = before

    def run(self, line: str) -> int:
        """The exit status of one line; 0 for an empty one. ShellEnd for ``exit``. Ctrl-C is status 130."""
        try:
            with _put_back():
                return self._run(line)
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED

    def _run(self, line: str) -> int:
        if line.lstrip().startswith(PROGRAM_MARK):
            return _run_program(line.lstrip().removeprefix(PROGRAM_MARK))
        parsed = parse_line(line)
        try:
            words = command_words(parsed)
            if parsed.piped_to == "" or (parsed.piped_to is not None and not words):
                raise UsageError("a command is missing beside |")
        except UsageError as error:
            return diagnostics.report(error, command=None, as_json=bool(self.before.as_json))
        if not words:
            return ExitCode.OK
        if parsed.piped_to is not None:
            return self._run_piped(words, parsed.piped_to)
        if words[0].lower() in LAST_WORDS and len(words) == 1:
            raise ShellEnd
        return cli.run(words, self.before)

    def _run_piped(self, words: list[str], program: str) -> int:
        """The status of the command; if that is 0, or it only found that nobody reads any more, the program's."""
        with subprocess.Popen(program, shell=True, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            out = io.TextIOWrapper(process.stdin, encoding="utf-8", errors="replace")
            with contextlib.redirect_stdout(out):
                status = cli.run(words, self.before)
            with contextlib.suppress(BrokenPipeError):
                out.close()
            ended = _wait(process)
        return ended if status in (ExitCode.OK, PIPE_CLOSED) else status


def command_words(line: TypedLine) -> list[str]:
    """The words of a command, also of one that was copied with the program's name. UsageError."""
    words = line.texts()
    return words[1:] if words[:1] == [diagnostics.PROGRAM] else words


def _run_program(text: str) -> int:
    sys.stdout.flush()
    with subprocess.Popen(text, shell=True) as process:
        return _wait(process)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """The status as sh has it. A Ctrl-C is the program's, while it runs."""
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            continue
        return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _put_back() -> Iterator[None]:
    terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
    settings = None if terminal is None else termios.tcgetattr(terminal)
    on_interrupt = signal.getsignal(signal.SIGINT)
    streams = sys.stdin, sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        signal.signal(signal.SIGINT, on_interrupt)
        # Only if they were changed: a job in the background would be stopped by the attempt.
        if terminal is not None and settings is not None and termios.tcgetattr(terminal) != settings:
            termios.tcsetattr(terminal, termios.TCSADRAIN, settings)
