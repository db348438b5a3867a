"""``context add``: adds a context."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.context_options import ContextOptions
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.contexts.context_rows import Contexts, context_row
from rmqadmin.core.contexts.context_store import ContextStore
from rmqproto.errors import UsageError


def context_add(
    call: Call,
    name: Annotated[str, Value.NAME, typer.Argument(metavar="NAME", help="Letters, digits, _ . and -.")],
    options: ContextOptions,
    use: Annotated[bool, typer.Option("--use", help="Use it at once.")] = False,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Keep a context of that name.")] = False,
) -> Contexts:
    """Each context has its own file. It holds no keys, only where they are.

    Examples:
      rmqadmin context add dev -n 127.0.0.1:9876 --use
      rmqadmin context add live -n '10.0.0.1:9876;10.0.0.2:9876' -c DefaultCluster --protected --color red
      rmqadmin context add audit -n 10.0.0.1:9876 --read-only -ak env:AUDIT_KEY -sk file:/run/secrets/audit
    """
    if options.namesrv_addr is None:
        raise UsageError(
            "Missing required option: -n/--namesrvAddr", hint="The name servers of the cluster: -n 127.0.0.1:9876."
        )
    store = ContextStore()
    is_there = if_not_exists and name in store.names()
    added = store.load(name) if is_there else store.add(name, options.values())
    if use:
        store.use(name)
        call.context_chosen(name)
    return Contexts([context_row(store, added)])
