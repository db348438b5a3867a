"""Shows output longer than the terminal in a pager: RMQADMIN_PAGER, PAGER, the one in the settings, or ``less``.

The first screen is written at once. The pager starts only if there is more, and then begins with that screen. It takes
the rest on demand, so a reader who stops early causes no further reading.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

from rmqadmin.core.contexts.settings import EffectiveSettings

_NONE = ("", "cat")
_LESS_OPTIONS = "RS"
"""Colours are kept, and the arrow keys scroll along long lines. Used only if LESS does not set other options."""


def page(texts: Iterator[str]) -> None:
    """Writes whole lines, through a pager once they fill the terminal."""
    height = shutil.get_terminal_size().lines
    shown: list[str] = []
    line_count = 0
    for text in texts:
        shown.append(text)
        line_count += text.count("\n")
        if line_count >= height:
            command = pager_command()
            if command is None:
                sys.stdout.write(text)
                _write_all(texts)
            else:
                _page_all(command, shown, texts)
            return
        sys.stdout.write(text)
        sys.stdout.flush()


def pager_command() -> list[str] | None:
    """The pager's command line. None if there is none, none is wanted, or the terminal can only print."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    wanted = EffectiveSettings({}).setting("pager").value.strip()
    if wanted in _NONE:
        return None
    command = shlex.split(wanted)
    return command if shutil.which(command[0]) else None


def _write_all(texts: Iterator[str]) -> None:
    for text in texts:
        sys.stdout.write(text)
        sys.stdout.flush()


def _page_all(command: list[str], shown: list[str], texts: Iterator[str]) -> None:
    environment = {"LESS": _LESS_OPTIONS, **os.environ}
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True, errors="replace") as process:
        assert process.stdin is not None
        try:
            for text in (*shown, *texts):
                process.stdin.write(text)
                process.stdin.flush()
        except (BrokenPipeError, KeyboardInterrupt):
            pass  # the reader has seen enough, or there is nothing more to read
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                continue  # Ctrl-C belongs to the pager while it has the terminal
