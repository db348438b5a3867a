"""Runs the lines of a shell, one after another, in this process.

Every command finds the process unchanged: its streams, the terminal's settings and the Ctrl-C handler are restored
after each. The part after ``|``, and a line that begins with ``!``, go to sh.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterable, Iterator
from itertools import count

from rmqadmin.cli import interrupts, program
from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.terminal_guard import terminal_program
from rmqadmin.cli.prompt.line import TypedLine, parse_line
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.version import PIPE_CLOSED
from rmqproto.errors import UsageError

PROGRAM_MARK = "!"
LAST_WORDS = ("exit", "quit")


class ShellEnd(Exception):
    """The line was ``exit``, or a signal has ended the shell."""


class CommandLines:
    """Runs lines. ``before`` is what every line inherits; its session keeps what lasts between them."""

    def __init__(self, before: Invocation):
        self.before = before

    def run(self, line: str) -> int:
        """Runs one line; its exit status, 0 for an empty one. ShellEnd for ``exit``, and after a signal that is not
        about the line alone. Ctrl-C gives status 130."""
        try:
            with _put_back():
                status = self._run(line)
        except KeyboardInterrupt:
            status = ExitCode.INTERRUPTED
        if interrupts.is_ended():
            raise ShellEnd
        return status

    def _run(self, line: str) -> int:
        if line.lstrip().startswith(PROGRAM_MARK):
            sys.stdout.flush()
            with terminal_program(line.lstrip().removeprefix(PROGRAM_MARK), shell=True) as process:
                return _wait(process)
        parsed = parse_line(line)
        try:
            words = command_words(parsed)
            if parsed.piped_to == "" or (parsed.piped_to is not None and not words):
                raise UsageError("a command is missing next to |")
        except UsageError as error:
            return diagnostics.report(error, command=None, as_json=bool(self.before.as_json))
        if not words:
            return ExitCode.OK
        if parsed.piped_to is not None:
            return self._run_piped(words, parsed.piped_to)
        if words[0].lower() in LAST_WORDS and len(words) == 1:
            raise ShellEnd
        return program.run(words, self.before)

    def _run_piped(self, words: list[str], reader: str) -> int:
        """Runs a command piped to another program, the reader. The status is the command's, or the reader's if that is
        0 or only says that the reader stopped reading."""
        with terminal_program(reader, shell=True, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            out = io.TextIOWrapper(process.stdin, encoding="utf-8", errors="replace")
            with contextlib.redirect_stdout(out):
                status = program.run(words, self.before)
            with contextlib.suppress(BrokenPipeError):
                out.close()
            ended = _wait(process)
        return ended if status in (ExitCode.OK, PIPE_CLOSED) else status


def command_words(line: TypedLine) -> list[str]:
    """The words of a command, without the program's name if it was copied along. UsageError."""
    words = line.texts()
    return words[1:] if words[:1] == [diagnostics.PROGRAM] else words


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Waits for a program; its status as in sh. While it runs, Ctrl-C is the program's."""
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            if interrupts.is_ended():
                raise
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
        # Only if they were changed: a background job would be stopped by the attempt.
        if terminal is not None and settings is not None and termios.tcgetattr(terminal) != settings:
            termios.tcsetattr(terminal, termios.TCSADRAIN, settings)


def run_lines(lines: Iterable[tuple[str, str]], commands: CommandLines, *, keep_going: bool) -> int:
    """Runs lines, each with the name of its place, until one fails; with ``keep_going``, all of them unless Ctrl-C. The
    status of the first that failed, else 0."""
    first = int(ExitCode.OK)
    for place, line in lines:
        try:
            status = commands.run(line)
        except ShellEnd:
            break
        if status == ExitCode.OK:
            continue
        first = first or status
        if status == ExitCode.INTERRUPTED:
            break
        if not keep_going:
            diagnostics.notice(f"{place} ended with status {status}: the rest was not run (--keep-going runs it)")
            break
        diagnostics.notice(f"{place} ended with status {status}")
    return first


def given_lines(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The lines of ``-c``."""
    for number, text in enumerate(texts, start=1):
        for line in text.splitlines():
            yield f"-c number {number}", line


def script_lines(raw: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The lines of a script. A line that ends with a backslash continues on the next."""
    numbers, begun, first = count(1), "", 0
    for number, text in zip(numbers, raw, strict=False):
        line = text.rstrip("\r\n")
        first = first or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield f"line {first}", begun + line
        begun, first = "", 0
    if begun:
        yield f"line {first}", begun


@contextlib.contextmanager
def standard_input() -> Iterator[Iterator[str]]:
    """The lines on standard input, each as soon as it arrives. Commands meanwhile see an empty input, because they
    would otherwise read the lines after their own."""
    kept, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(empty, 0)
        with open(kept, encoding="utf-8-sig", errors="surrogateescape", closefd=False) as script:
            yield iter(script)
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(empty)
