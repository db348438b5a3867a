"""``store verify``: checks every file of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.store_options import StoreDir
from rmqadmin.core.progress import BytesDone
from rmqadmin.core.stores.surveyed import surveyed
from rmqadmin.core.stores.verified import VerifiedStore, verified


def store_verify(
    call: Call,
    directory: StoreDir,
    all_findings: Annotated[bool, typer.Option("--all", help="Also show notes: worth knowing, but not wrong.")] = False,
) -> VerifiedStore:
    """Reads the commit log once, and checks everything derived from it: consume queues, index, timers, tables. Each
    finding says where it is, what is lost, and what a start of rmqserver and of Apache's broker would do about it.
    Writes nothing and locks nothing. Ends with status 7 if there are errors or warnings.

    Examples:
      rmqadmin store verify /data/store
      rmqadmin -o json store verify /data/store --all
    """
    line = BytesDone(call.status)
    try:
        return verified(surveyed(directory, call.notice), line, shows_notes=all_findings)
    finally:
        line.clear()
