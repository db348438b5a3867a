"""Lines that are not typed: from ``-c``, or from a file or pipe on standard input."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from itertools import count

from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.prompt.command_lines import CommandLines, ShellEnd
from rmqadmin.core.exit_codes import ExitCode


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
