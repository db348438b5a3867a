"""Typed lines, for the arrow keys and Ctrl-R, in a file that only its owner may read. Lines with a secret, and lines
that begin with a blank, are remembered only by this shell."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import History

from rmqadmin.cli.parsing.mqadmin_argv import normalise
from rmqadmin.cli.parsing.registry_command import RegistryCommand, option_specs
from rmqadmin.cli.prompt.candidates import read_words
from rmqadmin.cli.prompt.command_lines import PROGRAM_MARK, command_words
from rmqadmin.cli.prompt.line import parse_line
from rmqadmin.core.audit.trail import SECRET_NAME
from rmqadmin.core.own_files import make_private_dir, state_dir, write_private
from rmqproto.errors import UsageError

LINES_MAX = 5000
_LIKE_SECRET_OPTION = re.compile(r"(^|\s)-(sk|p)", re.IGNORECASE)
_ANY_VALUE = "--value"


class CommandHistory(History):
    """The history. If the file cannot be read or written, there is no history, and no error."""

    def __init__(self, is_secret: Callable[[str], bool], path: Path | None = None):
        super().__init__()
        self.path = path or state_dir() / "shell_history"
        self._is_secret = is_secret

    def load_history_strings(self) -> Iterable[str]:
        """The lines, newest first."""
        with contextlib.suppress(OSError):
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
            if len(lines) > 2 * LINES_MAX:
                lines = lines[-LINES_MAX:]
                write_private(self.path, "".join(f"{line}\n" for line in lines))
            return lines[::-1]
        return []

    def store_string(self, string: str) -> None:
        lines = [line for line in string.splitlines() if line.strip()]
        if not lines or string[:1].isspace() or any(map(self._is_secret, lines)):
            return
        with contextlib.suppress(OSError):
            make_private_dir(self.path.parent)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.fchmod(file, 0o600)
                os.write(file, "".join(f"{line}\n" for line in lines).encode(errors="replace"))
            finally:
                os.close(file)


def holds_secret(line: str, build: Callable[[str], RegistryCommand]) -> bool:
    """Whether a line contains a password or a key, as far as that can be told; True if in doubt. ``build`` makes the
    command with a given name."""
    if line.lstrip().startswith(PROGRAM_MARK):
        return bool(SECRET_NAME.search(line))
    parsed = parse_line(line)
    if parsed.piped_to is not None and SECRET_NAME.search(parsed.piped_to):
        return True
    try:
        read = read_words(command_words(parsed))
        if read.command is None:
            raise UsageError("no command")
        command = build(read.command.entry.name)
        seen = normalise(read.args, option_specs(command)).seen
    except UsageError:
        return bool(SECRET_NAME.search(line) or _LIKE_SECRET_OPTION.search(line))
    return bool(seen & command.secret_options) or (_ANY_VALUE in seen and bool(SECRET_NAME.search(line)))
