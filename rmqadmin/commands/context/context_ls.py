"""``context ls``: lists the contexts."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.core.contexts.context_rows import Contexts, all_contexts
from rmqadmin.core.contexts.context_store import ContextStore


def context_ls(call: Call) -> Contexts:
    """A context names a cluster: its addresses, how to reach it, and what must not happen to it by mistake.

    Examples:
      rmqadmin context ls
      rmqadmin -o name context ls
    """
    found = all_contexts(ContextStore())
    if not found.found:
        call.notice("there is no context yet; to add one: rmqadmin context add NAME -n HOST:PORT")
    return found
