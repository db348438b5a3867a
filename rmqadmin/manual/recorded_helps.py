"""Helps of commands as data (``helps.jsonl``), so that a help loads no command: what one imports takes longer than all
else that ``COMMAND --help`` does.

A help is recorded as what Typer tells its formatter, and is told to one again, which knows the terminal's width. The
file's first line has the rows of all option lists, each once; every other line has a command's name and its calls,
whose lists name their rows by number. ``python -m rmqadmin.reference`` writes it, and a test holds it equal to the
program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

FILE = Path(__file__).with_name("helps.jsonl")
LIST = "write_dl"
"""The method whose first argument is rows."""

Calls = list[tuple[str, list[Any]]]
"""Methods of a formatter, and their arguments."""


def recorded_help(name: str, formatter: Any) -> str | None:
    """The help of a command by its name in the registry, as a fresh formatter of Typer's lays it out. None if none is
    recorded."""
    text = FILE.read_text("utf-8") if FILE.is_file() else ""
    begin = text.find(f'\n["{name}",') + 1
    if begin == 0:
        return None
    rows = msgspec.json.decode(text[: text.index("\n")], type=list[tuple[str, str]])
    _, calls = msgspec.json.decode(text[begin : text.index("\n", begin)], type=tuple[str, Calls])
    for method, args in calls:
        told = [[rows[number] for number in args[0]], *args[1:]] if method == LIST else args
        getattr(formatter, method)(*told)
    return str(formatter.getvalue()).rstrip("\n")
