"""``context edit``: changes the settings of a context, by options or in an editor."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.context_options import ContextOptions, OneContext
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.contexts.context import Context, ContextSettings
from rmqadmin.core.contexts.context_rows import Contexts, context_row
from rmqadmin.core.contexts.context_store import ContextStore
from rmqproto.errors import UsageError


def context_edit(
    call: Call,
    name: OneContext,
    options: ContextOptions,
    unset: Annotated[
        list[str] | None,
        Value.NAME,
        typer.Option("--unset", metavar="SETTING", help="Remove this setting. Repeatable."),
    ] = None,
) -> Contexts:
    """Comments stay. Without options, opens the file in $VISUAL or $EDITOR, and keeps the result if it is valid.

    Examples:
      rmqadmin context edit live --color magenta --timeout 10
      rmqadmin context edit live --no-protected --unset color
    """
    store, values = ContextStore(), options.values()
    taken = frozenset(unset or ())
    for key in taken:
        if key not in ContextSettings.__struct_fields__:
            there = ", ".join(ContextSettings.__struct_fields__)
            raise UsageError(f"--unset {key}: there is no such setting", hint=f"There are: {there}.")
    changed = store.change(name, values, taken) if values or taken else _edited(call, store, name)
    return Contexts([context_row(store, changed)])


def _edited(call: Call, store: ContextStore, name: str) -> Context:
    from rmqadmin.cli.shared.editor import edit

    text = store.read_text(name)
    if not sys.stdin.isatty():
        raise UsageError("an editor needs a terminal", hint="`rmqadmin context edit --help` lists the options.")
    return edit(text, store.path(name), lambda written: store.replace_text(name, written), call.notice)
