"""``exportPopRecord``: makes brokers write their POP records from RocksDB to files."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, EveryReplicaToo, TrueFalse
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, carry_out
from rmqadmin.core.mqadmin_text import java_bool


def export_pop_record(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplicaToo = None,
    is_planned: Annotated[
        TrueFalse,
        typer.Option("-d", "--dryRun", case_sensitive=False, help="Only show what would be asked of the brokers."),
    ] = TrueFalse.FALSE,
) -> Changes:
    """Needed before a broker goes back to a release that keeps these records in files. mqadmin's -d is inverted: with
    -d true it exports.

    Examples:
      rmqadmin exportPopRecord -b 127.0.0.1:10911
      rmqadmin exportPopRecord -c DefaultCluster -d true
    """
    admin = call.admin
    names = _named(call, broker_addr, cluster_name)
    is_dry = call.dry_run or is_planned is TrueFalse.TRUE
    rows = carry_out(
        [Step(addr, "export", [], partial(admin.export_pop_records, addr)) for addr in names], dry_run=is_dry
    )
    text = "".join(
        f"Export broker records, brokerName={names[row.target]}, brokerAddr={row.target}, dryRun={java_bool(is_dry)}\n"
        for row in rows
        if row.error is None
    )
    return Changes(rows, text)


def _named(call: Call, broker_addr: str | None, cluster_name: str | None) -> dict[str, str]:
    """Broker names by address."""
    targets.check_one_of(broker_addr, cluster_name)
    if cluster_name is None:
        (addr,) = targets.replicas(call.admin, broker_addr, None)
        return {addr: call.admin.broker_config(addr).get("brokerName", "null")}
    brokers = targets.cluster(call.admin, cluster_name)
    return {addr: broker.broker_name for broker in brokers for addr in targets.replicas_of_all([broker])}
