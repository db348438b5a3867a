"""The columns of the ``rocketmq`` source and of its tables: name, Arrow type, and Spark's name of the type. A user's
schema is the only projection that Spark passes to a Python source, so any subset in any order is accepted."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqproto.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """``kind`` is Spark's DDL name of the type."""

    name: str
    kind: str


COLUMNS = (
    SourceColumn("topic", "string"),
    SourceColumn("brokerName", "string"),
    SourceColumn("queueId", "int"),
    SourceColumn("queueOffset", "bigint"),
    SourceColumn("logOffset", "bigint"),
    SourceColumn("storeSize", "int"),
    SourceColumn("sysFlag", "int"),
    SourceColumn("flag", "int"),
    SourceColumn("bornTimestamp", "timestamp"),
    SourceColumn("storeTimestamp", "timestamp"),
    SourceColumn("bornHost", "string"),
    SourceColumn("storeHost", "string"),
    SourceColumn("reconsumeTimes", "int"),
    SourceColumn("preparedTransactionOffset", "bigint"),
    SourceColumn("msgId", "string"),
    SourceColumn("offsetMsgId", "string"),
    SourceColumn("tags", "string"),
    SourceColumn("keys", "string"),
    SourceColumn("properties", "map<string,string>"),
    SourceColumn("body", "binary"),
    SourceColumn("originTopic", "string"),
    SourceColumn("corrupt", "string"),
)
NAMES = tuple(column.name for column in COLUMNS)


def columns(*, properties: str = "map", include_body: bool = True, corrupt: bool = False) -> list[SourceColumn]:
    """The source's columns under its options: ``properties`` is map, raw or none."""
    found = []
    for column in COLUMNS:
        if column.name == "properties":
            if properties == "none":
                continue
            column = replace(column, kind="string") if properties == "raw" else column
        if (column.name == "body" and not include_body) or (column.name == "corrupt" and not corrupt):
            continue
        found.append(column)
    return found


def ddl(*, properties: str = "map", include_body: bool = True, corrupt: bool = False) -> str:
    """The ``columns`` as a schema text for Spark."""
    found = columns(properties=properties, include_body=include_body, corrupt=corrupt)
    return ", ".join(f"{column.name} {column.kind}" for column in found)


@functools.cache
def arrow_type(name: str, *, properties: str = "map") -> pa.DataType:
    return arrow_of("string" if name == "properties" and properties == "raw" else _KINDS[name])


def arrow_of(kind: str) -> pa.DataType:
    """The Arrow type for Spark's name of a type."""
    import pyarrow as pa

    return {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
        "binary": pa.binary(),
    }[kind]


_KINDS = {column.name: column.kind for column in COLUMNS}


def check_columns(wanted: Iterable[tuple[str, str]], *, properties: str = "map", corrupt: bool = False) -> list[str]:
    """As ``check_names``, of the source under its options."""
    pairs = list(wanted)
    if not corrupt and any(name == "corrupt" for name, _ in pairs):
        raise UsageError("column corrupt needs the option onCorrupt=column")
    return check_names(pairs, _KINDS | ({"properties": "string"} if properties == "raw" else {}), "the rocketmq source")


def check_names(wanted: Iterable[tuple[str, str]], kinds: Mapping[str, str], of: str) -> list[str]:
    """The names of a user's schema (names and Spark's type names). UsageError for a column that ``kinds`` does not
    have, or has with another type, and for one that is named twice."""
    names: list[str] = []
    for name, kind in wanted:
        if name not in kinds:
            raise UsageError(f"{of} has no column {name}", hint="it has " + ", ".join(kinds))
        if kind.replace(" ", "") != kinds[name]:
            raise UsageError(f"column {name} is {kinds[name]}, not {kind}")
        if name in names:
            raise UsageError(f"there are two columns {name}")
        names.append(name)
    return names


# --- tables ----------------------------------------------------------------------------------------------------------

_MESSAGE = "topic string, tags string, keys string, msgId string, properties map<string,string>"

TABLES = {
    "offsets": "group string, topic string, brokerName string, queueId int, brokerOffset bigint, "
    "consumerOffset bigint, lagCount bigint, inflightCount bigint, unread boolean, lastConsumedTimestamp timestamp",
    "queues": "topic string, brokerName string, queueId int, minOffset bigint, maxOffset bigint, messageCount bigint, "
    "unread boolean, oldestTimestamp timestamp, newestTimestamp timestamp, problem string",
    "traces": "msgId string, topic string, kind string, timestamp timestamp, group string, clientHost string, "
    "costMs bigint, outcome string, retries int, latencyMs bigint, missing boolean",
    "deadletters": "group string, brokerName string, queueId int, queueOffset bigint, msgId string, "
    "offsetMsgId string, originTopic string, originMsgId string, tags string, keys string, cause string, "
    "reconsumeTimes int, redrives int, again boolean, redriven boolean, bornTimestamp timestamp, "
    "firstFailureTimestamp timestamp, storeTimestamp timestamp, bodySize int, properties map<string,string>",
    "halves": f"{_MESSAGE}, brokerName string, queueId int, queueOffset bigint, producerGroup string, checkTimes int, "
    "bornTimestamp timestamp, storeTimestamp timestamp",
    "timers": f"{_MESSAGE}, brokerName string, queueId int, logOffset bigint, rolls int, deliverTimestamp timestamp, "
    "bornTimestamp timestamp, storeTimestamp timestamp",
}
"""Table -> its columns, as a schema text for Spark: those of the command that prints the same, in the words of the
source's other columns."""


def kinds_of(table: str) -> dict[str, str]:
    """Column -> Spark's name of its type."""
    pairs = (each.split(" ") for each in TABLES[table].split(", "))
    return {name: kind for name, kind in pairs}


def check_table_columns(table: str, wanted: Iterable[tuple[str, str]]) -> list[str]:
    """As ``check_names``, of the table."""
    return check_names(wanted, kinds_of(table), f"the table {table}")
