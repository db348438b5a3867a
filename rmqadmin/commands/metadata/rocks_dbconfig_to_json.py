"""``rocksDBConfigToJson``: writes tables that brokers keep in RocksDB as JSON, on the brokers' disks or here."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, TrueFalse
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, carry_out
from rmqadmin.core.metadata.rocksdb_tables import TableEntries, TableKind, read_table
from rmqadmin.core.user_files import write_file
from rmqproto.errors import StorageError, UsageError

_LOCAL = "Use [local mode] load rocksdb to print or export file \n"
_RPC = "Use [rpc mode] call {} to export to json file \n"


def rocks_dbconfig_to_json(
    call: Call,
    config_type: Annotated[
        str | None,
        Value.NAME,
        typer.Option(
            "-t", "--configType", metavar="NAME;...", help="topics, subscriptionGroups, consumerOffsets. Default: all."
        ),
    ] = None,
    broker_addr: BrokerAddr = None,
    cluster: Annotated[
        str | None,
        Value.CLUSTER,
        typer.Option("-c", "--cluster", metavar="CLUSTER", help="All masters of this cluster."),
    ] = None,
    config_path: Annotated[
        str | None,
        Value.FILE,
        typer.Option("-p", "--configPath", metavar="DIR", help="Read the tables in this folder instead."),
    ] = None,
    export_file: Annotated[
        str | None,
        Value.FILE,
        typer.Option("-e", "--exportFile", metavar="FILE", help="With -p: write them to this file."),
    ] = None,
    json_enable: Annotated[
        TrueFalse,
        typer.Option("-j", "--jsonEnable", case_sensitive=False, help="With -p and --output mqadmin: as JSON."),
    ] = TrueFalse.TRUE,
) -> Changes | TableEntries:
    """With -b or -c, each broker writes JSON files next to its tables, on its own disk (brokers from 5.3.2 on). With
    -p, this command reads one table of a stopped broker or of a copy; that needs the extra rocksdb.

    Examples:
      rmqadmin rocksDBConfigToJson -c DefaultCluster -t topics
      rmqadmin rocksDBConfigToJson -b 127.0.0.1:10911 --dry-run
      rmqadmin rocksDBConfigToJson -p /data/store/config -t topics -e topics.json
    """
    kinds = _kinds(config_type)
    if config_path is not None and broker_addr is None and cluster is None:
        if config_type is None or len(kinds) != 1:
            raise UsageError("local mode Invalid args, please input configType", hint="Give one table: -t topics.")
        entries = read_table(config_path.strip(), kinds[0])
        table = TableEntries(kinds[0], entries, json_enable is TrueFalse.FALSE, _LOCAL)
        if export_file is not None and not call.dry_run:
            _write(Path(export_file.strip()), table.json_text())
            call.notice(f"written to {export_file.strip()}")
        return table
    if broker_addr is None and cluster is None:
        cluster = targets.only_cluster(call.admin.cluster_info())
    addrs = targets.masters(call.admin, broker_addr, cluster)
    steps = [Step(addr, "export", [], partial(call.admin.export_rocksdb_tables, addr, kinds)) for addr in addrs]
    rows = carry_out(steps, dry_run=call.dry_run)
    head = _RPC.format("broker" if cluster is None else "all brokers in cluster")
    return Changes(rows, None if call.dry_run else f"{head}broker export done.")


def _kinds(text: str | None) -> list[TableKind]:
    if text is None:
        return list(TableKind)
    known = {kind.lower(): kind for kind in TableKind}
    names = [part.strip() for part in text.split(";") if part.strip()]
    wrong = [name for name in names if name.lower() not in known]
    if wrong or not names:
        raise UsageError(
            f"Invalid configType: {text} please input topics/subscriptionGroups/consumerOffsets",
            hint="Several are separated by semicolons.",
        )
    return [known[name.lower()] for name in names]


def _write(file: Path, text: str) -> None:
    """Writes the file. An existing file is kept as FILE.bak, as mqadmin does."""
    try:
        if file.exists():
            os.replace(file, file.with_name(file.name + ".bak"))
    except OSError as error:
        raise StorageError(f"cannot write {file}: {error.strerror}") from None
    write_file(file, text.encode())
