"""Shows output longer than the terminal in a pager: RMQADMIN_PAGER, PAGER, the one in the settings, or ``less``.

The first screen is written at once. The pager starts only if there is more, and then begins with that screen. It takes
the rest on demand, so a reader who stops early causes no further reading.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.terminal_guard import terminal_program
from rmqadmin.core.contexts.settings import EffectiveSettings, Level
from rmqadmin.core.files import program_words
from rmqproto.errors import UsageError

_NONE = ("", "cat")
_LESS_OPTIONS = "RS"
"""Colours are kept, and the arrow keys scroll along long lines. Used only if LESS does not set other options."""


def page(texts: Iterator[str]) -> None:
    """Writes whole lines, through a pager once they fill the terminal."""
    height = shutil.get_terminal_size().lines
    shown: list[str] = []
    line_count, problem = 0, None
    for text in texts:
        if line_count < height:  # behind that it is decided, and nothing is kept
            shown.append(text)
            line_count += text.count("\n")
            if line_count >= height:
                try:
                    command = pager_command()
                    if command is not None and _page_all(command, shown, texts):
                        return
                except UsageError as error:  # told below the output, where it is seen
                    problem = error
                shown.clear()
        sys.stdout.write(text)
        sys.stdout.flush()
    if problem is not None:
        diagnostics.notice(f"{problem}: shown without a pager")


def pager_command() -> list[str] | None:
    """The pager's command line. None if there is none, none is wanted, or the terminal can only print. UsageError if
    the one that the user has named cannot be started."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    setting = EffectiveSettings({}).setting("pager")
    wanted = setting.value.strip()
    if wanted in _NONE:
        return None
    command = program_words(wanted, setting.source)
    if shutil.which(command[0]):
        return command
    if setting.level is Level.DEFAULT:
        return None
    raise UsageError(f"{setting.source}: there is no program {command[0]}")


def _page_all(command: list[str], shown: list[str], texts: Iterator[str]) -> bool:
    """Shows the texts in the pager. UsageError if it cannot be started."""
    environment = {"LESS": _LESS_OPTIONS, **os.environ}
    with contextlib.ExitStack() as started:
        try:
            process = started.enter_context(
                terminal_program(
                    command, stdin=subprocess.PIPE, env=environment, encoding="utf-8", errors="replace"
                )
            )  # fmt: skip
        except OSError as error:
            raise UsageError(f"{command[0]}: {error.strerror}") from None
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
    if process.returncode > 0:  # what it could not show is lost
        diagnostics.notice(f"the pager {command[0]} ended with status {process.returncode}: --no-pager shows all of it")
    return True
