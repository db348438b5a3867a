"""The tables that a broker keeps in RocksDB, read from the files of a stopped broker or from a copy of them.

Needs the package ``rocksdict`` (extra ``rocksdb``), because none of our code reads RocksDB's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from rmqadmin.core.mqadmin_text import fastjson_pretty
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import StorageError, UsageError


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


class TableEntries(Result, frozen=True):
    """The entries of one table."""

    row_type: ClassVar[type[Row]] = TableEntryRow
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
