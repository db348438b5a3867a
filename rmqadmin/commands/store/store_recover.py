"""``store recover --dry-run``: shows what a start would cut off and rebuild."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core.progress import BytesDone
from rmqadmin.core.stores.planned import StartPlan, start_plan
from rmqadmin.core.stores.surveyed import surveyed
from rmqadmin.options.store_options import StoreDir
from rmqproto.errors import UsageError


def store_recover(
    call: Call,
    directory: StoreDir,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Required; this command changes nothing.")] = False,
) -> StartPlan:
    """A broker recovers its store when it starts; this shows what that would change, and what would be lost. Runs the
    server's own recovery and keeps its changes in a temporary file: the store is only read.

    Examples:
      rmqadmin store recover /data/store --dry-run
      rmqadmin -o json store recover /data/store --dry-run
    """
    if not dry_run:
        raise UsageError(
            "stores are only read here: --dry-run is missing",
            hint=f"To recover the store, start its broker. Copy it first: cp -a --sparse=always {directory} COPY",
        )
    line = BytesDone(call.status)
    try:
        return start_plan(surveyed(directory, call.notice), lambda: line("trying a start", 0, 0))
    finally:
        line.clear()
