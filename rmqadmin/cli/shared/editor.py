"""A file opened in the user's own editor, and kept only if it is valid."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.terminal_guard import run_in_terminal
from rmqadmin.core.named_programs import program_words
from rmqadmin.core.own_files import naming
from rmqadmin.core.results import Notice
from rmqadmin.core.user_files import read_text
from rmqproto.errors import UsageError

EDITOR_DEFAULT = "vi"

T = TypeVar("T")


def edit(text: str, path: Path, keep: Callable[[str], T], notice: Notice) -> T:
    """Opens a copy of ``text`` until ``keep`` accepts what was written, or the user gives up. ``keep`` raises
    UsageError for an invalid text. If the user gives up: UsageError that says where the text is, so nothing written is
    lost. ``path`` is the file being edited."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=path.suffix)
    with naming(name), open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    while True:
        _open_editor(name)
        try:
            kept = keep(read_text(name))
        except UsageError as error:
            notice(str(error))
            if error.hint:
                notice(error.hint)
            if diagnostics.ask("Enter to edit it again, n to give up: ") != "":
                raise UsageError(f"{path} is unchanged", hint=f"Your text is in {name}.") from None
        else:
            os.unlink(name)
            return kept


def _open_editor(name: str) -> None:
    """Opens the editor. UsageError if it cannot be started, or ends with a failure status."""
    wanted = next((one for one in ("VISUAL", "EDITOR") if os.environ.get(one, "").strip()), None)
    editor = os.environ[wanted] if wanted else EDITOR_DEFAULT
    hint = "Set VISUAL or EDITOR to the editor to start."
    try:
        status = run_in_terminal([*program_words(editor, wanted or EDITOR_DEFAULT), name])
    except UsageError as error:
        raise UsageError(str(error), hint=hint) from None
    except OSError as error:
        raise UsageError(f"{editor}: {error.strerror}", hint=hint) from None
    if status:
        raise UsageError(f"{editor} ended with status {status}", hint=f"Your text is in {name}.")
