"""``context use``: sets the context for commands that name none."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.contexts.context import NO_CONTEXT
from rmqadmin.core.contexts.context_rows import Contexts, context_row
from rmqadmin.core.contexts.context_store import ContextStore


def context_use(
    call: Call,
    name: Annotated[
        str, Value.CONTEXT, typer.Argument(metavar="CONTEXT|-|none", help="-: the one before. none: no context.")
    ],
) -> Contexts:
    """Applies from now on, in every shell. RMQADMIN_CONTEXT chooses a context for one shell, --context for one command.

    Examples:
      rmqadmin context use dev
      rmqadmin context use -
      rmqadmin context use none
    """
    store = ContextStore()
    chosen = store.use(name)
    call.context_chosen(NO_CONTEXT if chosen is None else chosen.name)
    if chosen is None:
        call.notice("no context is in use now")
    return Contexts([] if chosen is None else [context_row(store, chosen)])
