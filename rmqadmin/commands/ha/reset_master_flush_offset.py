"""``resetMasterFlushOffset``: sets the offset up to which a slave believes its master has flushed."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER, LONG
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out
from rmqclient.addresses import split_address


def reset_master_flush_offset(
    call: Call,
    broker_addr: Annotated[
        str,
        A_BROKER,
        Value.BROKER_ADDR,
        typer.Option("-b", "--brokerAddr", metavar="HOST:PORT", help="The slave's address."),
    ],
    offset: Annotated[int, LONG, typer.Option("-o", "--offset", min=0, help="Commit log offset.")],
) -> Changes:
    """Helps a slave that waits for an offset which its master has lost. A master answers with success but ignores it.

    Examples:
      rmqadmin resetMasterFlushOffset -b 127.0.0.1:10911 -o 0
      rmqadmin resetMasterFlushOffset -b 127.0.0.1:10911 -o 0 --dry-run
    """
    addr, admin = broker_addr.strip(), call.admin
    split_address(addr)
    before = admin.ha_status(addr).ha_client_runtime_info.master_flush_offset
    changes = [FieldChange("master_flush_offset", before, offset)] if before != offset else []
    step = Step(addr, "change" if changes else "keep", changes, partial(admin.reset_master_flush_offset, addr, offset))
    rows = carry_out([step], dry_run=call.dry_run)
    return Changes(rows, None if call.dry_run else f"reset master flush offset to {offset} success\n")
