"""``setCommitLogReadAheadMode``: sets how brokers tell the kernel that they read their commit logs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, EveryReplicaToo
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out, targets_done
from rmqadmin.core.servers.server_configs import replica_headings


class ReadMode(StrEnum):
    NORMAL = "0"
    RANDOM = "1"


def set_commit_log_read_ahead_mode(
    call: Call,
    mode: Annotated[
        ReadMode, typer.Option("-m", "--commitLogReadAheadMode", help="0: read ahead; 1: random access, no read-ahead.")
    ],
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplicaToo = None,
) -> Changes:
    """Mode 1 spares a broker useless reads if its consumers are far behind.

    Examples:
      rmqadmin setCommitLogReadAheadMode -b 127.0.0.1:10911 -m 0
      rmqadmin setCommitLogReadAheadMode -c DefaultCluster -m 1 --dry-run
    """
    headings = dict(replica_headings(call.admin, broker_addr, cluster_name))
    said: dict[str, str] = {}

    def step(addr: str) -> Step:
        def act() -> None:
            said[addr] = call.admin.set_read_mode(addr, mode)

        return Step(addr, "change", [FieldChange("read_ahead_mode", None, mode.value)], act)

    rows = carry_out([step(addr) for addr in headings], dry_run=call.dry_run)
    text = "".join(f" {headings[addr]}commitLog set readAhead mode rstStr{said[addr]}\n" for addr in targets_done(rows))
    return Changes(rows, None if call.dry_run else text)
