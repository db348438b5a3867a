"""Helps of commands as data (``helps.jsonl``), so that a help loads no command: a command's imports take longer than
everything else that ``COMMAND --help`` does.

A help is recorded as the calls that Typer makes to its formatter. They are replayed to a new formatter, which knows the
terminal's width. The first line of the file has the rows of all option lists, each once; every other line has a
command's name and its calls, whose lists refer to rows by number. ``python -m rmqadmin.manual.reference`` writes the
file, and a test checks that it matches the program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

FILE = Path(__file__).with_name("helps.jsonl")
LIST = "write_dl"
"""The method whose first argument is a list of rows."""

Calls = list[tuple[str, list[Any]]]
"""Methods of a formatter, and their arguments."""


def recorded_help(name: str, formatter: Any) -> str | None:
    """The help of a command by its registry name, as a new Typer formatter lays it out. None if it is not recorded."""
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
