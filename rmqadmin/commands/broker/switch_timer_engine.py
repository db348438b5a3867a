"""``switchTimerEngine``: sets where a broker keeps its timers (5.5.0)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out, targets_done

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class TimerEngine(StrEnum):
    FILES = "F"
    ROCKSDB = "R"


_NAMES = {TimerEngine.FILES: "FILE_TIME_WHEEL", TimerEngine.ROCKSDB: "ROCKSDB_TIMELINE"}


def switch_timer_engine(
    call: Call,
    engine_type: Annotated[
        TimerEngine, typer.Option("-e", "--engineType", help="F: the wheel in files; R: RocksDB, where it is enabled.")
    ],
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
) -> Changes:
    """Timers that are waiting stay where they are until they are due. Brokers before 5.5 do not know this request.

    Examples:
      rmqadmin switchTimerEngine -b 127.0.0.1:10911 -e F
      rmqadmin switchTimerEngine -c DefaultCluster -e F --dry-run
    """
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    rows = carry_out([_plan(call.admin, addr, engine_type) for addr in addrs], dry_run=call.dry_run)
    done = "".join(f"switchTimerEngine to {_NAMES[engine_type]} success, {addr}\n" for addr in targets_done(rows))
    return Changes(rows, None if call.dry_run else done)


def _plan(admin: AdminClient, addr: str, engine: TimerEngine) -> Step:
    """Plans the switch. No request tells the present engine."""
    changes = [FieldChange("timer_engine", None, _NAMES[engine])]
    return Step(addr, "change", changes, lambda: admin.switch_timer_engine(addr, engine))
