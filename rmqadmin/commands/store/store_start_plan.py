"""``store start-plan``: shows what a start would cut off and rebuild."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.store_options import StoreDir
from rmqadmin.core.progress import BytesDone
from rmqadmin.core.stores.planned import StartPlan, start_plan
from rmqadmin.core.stores.surveyed import surveyed


def store_start_plan(call: Call, directory: StoreDir) -> StartPlan:
    """A broker recovers its store when it starts; this shows what that would change, and what would be lost. Runs the
    server's own recovery and keeps its changes in a temporary file: the store is only read. To recover a store, start
    its broker; copy the store first.

    Examples:
      rmqadmin store start-plan /data/store
      rmqadmin -o json store start-plan /data/store
    """
    line = BytesDone(call.status)
    try:
        return start_plan(surveyed(directory, call.notice), lambda: line("trying a start", 0, 0))
    finally:
        line.clear()
