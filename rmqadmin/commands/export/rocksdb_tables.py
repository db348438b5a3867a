"""What brokers keep in RocksDB: its tables as JSON, and whether its queues are those of the files."""

import os
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change
from rmqadmin.cli.options.command_options import BrokerAddr, EveryMaster, TrueFalse
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step
from rmqadmin.core.files import write_file
from rmqadmin.core.mqadmin_text import fastjson_pretty
from rmqadmin.core.results import FoundRows, ResultOf, Row, doc, some_failed
from rmqproto.errors import StorageError, UsageError
from rmqproto.times import time_range


class TableKind(StrEnum):
    TOPICS = "topics"
    GROUPS = "subscriptionGroups"
    OFFSETS = "consumerOffsets"


_JSON_NAMES = {
    TableKind.TOPICS: "topicConfigTable",
    TableKind.GROUPS: "subscriptionGroupTable",
    TableKind.OFFSETS: "offsetTable",
}


class TableEntryRow(Row, frozen=True):
    key: Annotated[str, doc("topic, group, or topic@group", key=True)]
    value: Annotated[dict[str, Any], doc("its configuration; of consumerOffsets the offsets by queue id")]


class TableEntries(ResultOf[TableEntryRow], frozen=True):
    """The entries of one table."""

    kind: TableKind
    entries: dict[str, Any]
    as_lines: bool
    mqadmin_head: str = ""

    def rows(self) -> Sequence[TableEntryRow]:
        return [TableEntryRow(key=key, value=self.entries[key]) for key in sorted(self.entries)]

    def json_text(self) -> str:
        """The table as Apache's broker keeps it in a file."""
        return fastjson_pretty({_JSON_NAMES[self.kind]: dict(sorted(self.entries.items()))})

    def mqadmin_text(self) -> str:
        if not self.as_lines:
            return f"{self.mqadmin_head}{self.json_text()}\n"
        lines = (
            f"{at}, Key: {key}, Value: {msgspec.json.encode(self.entries[key]).decode()}\n"
            for at, key in enumerate(self.entries, 1)
        )
        return self.mqadmin_head + "".join(lines)


def read_table(folder: str, kind: TableKind) -> dict[str, Any]:
    """The entries of ``folder/kind``, by key. UsageError if it is not a database, or if the package that reads it is
    missing; StorageError for entries that are not JSON."""
    path = Path(folder) / kind
    if not (path / "CURRENT").is_file():
        raise UsageError(
            f"RocksDB path is invalid: {path} holds no database", hint="It is a folder with a file CURRENT."
        )
    try:
        from rocksdict import AccessType, Options, Rdict  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise UsageError(
            "reading RocksDB needs rocksdict", hint="Install it: pip install 'rmqadmin[rocksdb]'."
        ) from None
    try:
        database = Rdict(str(path), options=Options(raw_mode=True), access_type=AccessType.read_only())
    except Exception as error:  # rocksdict has no class of its own for errors of RocksDB
        raise StorageError(f"{path}: {error}") from None
    try:
        raw = {bytes(key).decode(errors="replace"): bytes(value) for key, value in database.items()}
    finally:
        database.close()
    try:
        entries = {key: msgspec.json.decode(value) for key, value in raw.items()}
    except (msgspec.DecodeError, RecursionError) as error:
        raise StorageError(f"{path}: an entry is not JSON: {error}") from None
    if kind is TableKind.OFFSETS:
        return {key: value.get("offsetTable", value) for key, value in entries.items()}
    return entries


_ERROR = "error"
_STATUSES = {0: "equal", 1: "not equal", 2: "under way", 3: _ERROR}
"""Names for the values of ``CheckRocksdbCqWriteResult.CheckStatus``."""

_MONTH = "-30d"


class QueueCheckRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_addr: Annotated[str, doc("address of its master", wide=True)]
    status: Annotated[str, doc("under way: the broker writes to its log what it finds; or equal, not equal, error")]
    detail: Annotated[str | None, doc("what the broker says about it", sparse=True)]


class QueueChecks(FoundRows[QueueCheckRow], frozen=True):
    """What brokers answer: they go on comparing."""

    def mqadmin_text(self) -> str:
        return "".join(
            f"{row.broker_name} check error, please check log... errInfo: {row.detail}"
            if row.status == _ERROR
            else f"{row.broker_name} check doing, please wait and get the result from log... \n"
            for row in self.found
        )

    def problem(self) -> str | None:
        return some_failed([str(row.detail) if row.status == _ERROR else None for row in self.found], "broker")


def check_rocksdb_cq_write_progress(
    call: Call,
    cluster: EveryMaster = None,
    topic: Annotated[str, Value.TOPIC, option("-t", "--topic", "This topic only.")] = "",
    check_from: Annotated[
        str, Value.TIME, option("-cf", "--checkFrom", "Messages stored at or after this time.")
    ] = _MONTH,
) -> QueueChecks:
    """The brokers write the result to their logs. mqadmin asks the brokers of all clusters.

    rmqadmin checkRocksdbCqWriteProgress -c DefaultCluster
    rmqadmin checkRocksdbCqWriteProgress -c DefaultCluster -t OrderTopic -cf -1d
    """
    from_ms = time_range(check_from, None, call.now_ms(), "-cf", tell=call.notice).begin_ms or 0
    brokers = targets.named_cluster(call.admin, cluster)
    names = {broker.master_addr: broker.broker_name for broker in brokers if broker.master_addr}
    answers = call.answers.of(lambda addr: call.admin.check_rocksdb_queues(addr, topic, from_ms), names)
    return QueueChecks(
        [
            QueueCheckRow(
                broker_name=names[addr],
                broker_addr=addr,
                status=_STATUSES.get(said.check_status, str(said.check_status)),
                detail=said.check_result,
            )
            for addr, said in answers.items()
        ]
    )


_LOCAL = "Use [local mode] load rocksdb to print or export file \n"
_RPC = "Use [rpc mode] call {} to export to json file \n"


def rocks_dbconfig_to_json(
    call: Call,
    config_type: Annotated[
        str | None,
        Value.NAME,
        option("-t", "--configType", "topics, subscriptionGroups, consumerOffsets. Default: all.", metavar="NAME;..."),
    ] = None,
    broker_addr: BrokerAddr = None,
    cluster: Annotated[str | None, Value.CLUSTER, option("-c", "--cluster", "All masters of this cluster.")] = None,
    config_path: Annotated[
        str | None, Value.FILE, option("-p", "--configPath", "Read the tables in this folder instead.", metavar="DIR")
    ] = None,
    export_file: Annotated[
        str | None, Value.FILE, option("-e", "--exportFile", "With -p: write them to this file.")
    ] = None,
    json_enable: Annotated[
        TrueFalse, option("-j", "--jsonEnable", "With -p and --output mqadmin: as JSON.")
    ] = TrueFalse.TRUE,
) -> Changes | TableEntries:
    """With -b or -c, each broker writes JSON files next to its tables, on its own disk (brokers from 5.3.2 on). With
    -p, this command reads one table of a stopped broker or of a copy; that needs the extra rocksdb.

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
    head = _RPC.format("broker" if cluster is None else "all brokers in cluster")
    return change(call, steps, lambda _done: f"{head}broker export done.")


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


def export_metadata_in_rocks_db(
    call: Call,
    path: Annotated[str, Value.FILE, option("-p", "--path", "The folder of the tables: store/config.", metavar="DIR")],
    config_type: Annotated[
        str, Value.CHOICE, option("-t", "--configType", "Which table.", metavar="topics|subscriptionGroups")
    ],
    json_enable: Annotated[
        TrueFalse, option("-j", "--jsonEnable", "With --output mqadmin: as JSON.")
    ] = TrueFalse.FALSE,
) -> TableEntries:
    """Asks no server. The broker must be stopped, or the folder must be a copy. Needs the extra rocksdb.

    rmqadmin exportMetadataInRocksDB -p /data/store/config -t topics
    rmqadmin -o json exportMetadataInRocksDB -p /data/store/config -t subscriptionGroups
    """
    kind = {name.lower(): name for name in (TableKind.TOPICS, TableKind.GROUPS)}.get(config_type.strip().lower())
    if kind is None:
        raise UsageError(
            f"Invalid config type={config_type}, Options: topics,subscriptionGroups", hint="Give one of the two."
        )
    return TableEntries(kind, read_table(path.strip(), kind), json_enable is TrueFalse.FALSE)
