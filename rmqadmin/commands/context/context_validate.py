"""``context validate``: checks whether contexts work."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.contexts.checks import ContextChecks, check_context
from rmqadmin.core.contexts.context_store import ContextStore


def context_validate(
    call: Call,
    names: Annotated[
        list[str] | None, Value.CONTEXT, typer.Argument(metavar="[CONTEXT]...", help="Default: all of them.")
    ] = None,
    connect: Annotated[bool, typer.Option("--connect", help="Also ask every name server and broker.")] = False,
) -> ContextChecks:
    """Checks the file, where the keys are, and whether certificates and keys match. With --connect, also checks whether
    all name servers answer, whether the cluster exists, and whether each broker can be reached at the address it
    advertises. Exit status 1 if anything fails.

    Examples:
      rmqadmin context validate
      rmqadmin context validate live --connect
    """
    store = ContextStore()
    wanted = names or store.names()
    if not wanted:
        call.notice("there is no context yet")
    return ContextChecks([row for name in wanted for row in check_context(store, name, connect=connect)])
