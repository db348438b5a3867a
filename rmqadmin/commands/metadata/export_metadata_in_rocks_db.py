"""``exportMetadataInRocksDB``: exports topics or groups from a broker's RocksDB files."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import TrueFalse
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.metadata.rocksdb_tables import TableEntries, TableKind, read_table
from rmqproto.errors import UsageError


def export_metadata_in_rocks_db(
    call: Call,
    path: Annotated[
        str, Value.FILE, typer.Option("-p", "--path", metavar="DIR", help="The folder of the tables: store/config.")
    ],
    config_type: Annotated[
        str, Value.CHOICE, typer.Option("-t", "--configType", metavar="topics|subscriptionGroups", help="Which table.")
    ],
    json_enable: Annotated[
        TrueFalse, typer.Option("-j", "--jsonEnable", case_sensitive=False, help="With --output mqadmin: as JSON.")
    ] = TrueFalse.FALSE,
) -> TableEntries:
    """Asks no server. The broker must be stopped, or the folder must be a copy. Needs the extra rocksdb.

    Examples:
      rmqadmin exportMetadataInRocksDB -p /data/store/config -t topics
      rmqadmin -o json exportMetadataInRocksDB -p /data/store/config -t subscriptionGroups
    """
    kind = {name.lower(): name for name in (TableKind.TOPICS, TableKind.GROUPS)}.get(config_type.strip().lower())
    if kind is None:
        raise UsageError(
            f"Invalid config type={config_type}, Options: topics,subscriptionGroups", hint="Give one of the two."
        )
    return TableEntries(kind, read_table(path.strip(), kind), json_enable is TrueFalse.FALSE)
