"""Makes ``helps.jsonl``: the calls that every command makes to Typer's formatter for its help."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from rmqadmin.cli import program
from rmqadmin.cli.command_building import build_command
from rmqadmin.cli.command_groups import build_noun_group
from rmqadmin.invocation import Invocation
from rmqadmin.manual.recorded_helps import LIST, Calls
from rmqadmin.output import diagnostics
from rmqadmin.registry import ENTRIES, Entry

_METHODS = ("write_usage", "write_text", "write_paragraph", "write_heading", "indent", "dedent", LIST)
"""All the methods that commands use; ``section`` and ``indentation`` call these."""


def helps() -> str:
    """The text of the file."""
    numbers: dict[tuple[str, str], int] = {}
    lines = []
    for entry in ENTRIES:
        calls = [
            (method, [[numbers.setdefault(tuple(row), len(numbers)) for row in args[0]], *args[1:]])
            if method == LIST
            else (method, args)
            for method, args in calls_of(entry)
        ]
        lines.append((entry.name, calls))
    return "".join(msgspec.json.encode(line).decode() + "\n" for line in (list(numbers), *lines))


def calls_of(entry: Entry) -> Calls:
    root: Any = program.build_app().make_context(diagnostics.PROGRAM, [], obj=Invocation())
    *nouns, name = entry.name.split()
    parent = root
    for noun in nouns:
        parent = type(root)(build_noun_group(noun), parent=root, info_name=noun)
    command = build_command(entry)
    context = type(root)(command, parent=parent, info_name=name, **command.context_settings)
    formatter, calls = context.make_formatter(), Calls()
    for method in _METHODS:
        setattr(formatter, method, partial(_record, calls, method, getattr(formatter, method)))
    command.format_help(context, formatter)
    return calls


def _record(calls: Calls, name: str, method: Any, *args: Any) -> None:
    """Records calls of a method. Methods call each other, so only the outermost call is recorded."""
    depth = len(calls)
    method(*args)
    calls[depth:] = [(name, list(args))]
