"""The columns of a frame that is to be written. What would be ignored, or fail in a task, is refused while the query is
planned."""

from __future__ import annotations

from collections.abc import Sequence

from rmqproto.errors import UsageError
from spark_tools.source_options import WriteOptions

INPUT_COLUMNS = {
    "body": ("binary", "string"), "topic": ("string",), "tags": ("string",), "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",), "queueId": ("int",), "brokerName": ("string",), "shardingKey": ("string",),
    "delayTimeLevel": ("int",), "deliverTimestamp": ("timestamp", "bigint"), "flag": ("int",),
}  # fmt: skip
HASHES = ("key", "javaHash")
"""The queue selectors that hash the column shardingKey."""


def check_input(columns: Sequence[tuple[str, str]], options: WriteOptions) -> None:
    """UsageError for a missing body or topic, and for columns that would be ignored or are of another type."""
    kinds: dict[str, str] = {}
    for name, kind in columns:
        allowed = INPUT_COLUMNS.get(name)
        if allowed is None:
            raise UsageError(f"column {name} has no meaning here", hint="known: " + ", ".join(INPUT_COLUMNS))
        if kind.replace(" ", "") not in allowed:
            raise UsageError(f"column {name} is {kind} and should be {' or '.join(allowed)}")
        if name in kinds:
            raise UsageError(f"there are two columns {name}")
        kinds[name] = kind
    if "body" not in kinds:
        raise UsageError("a column body is needed")
    if "topic" not in kinds and options.topic is None:
        raise UsageError("a column topic, or the option topic, is needed")
    if options.queue_selector == "source" and not {"queueId", "brokerName"} <= kinds.keys():
        raise UsageError("queueSelector=source needs the columns brokerName and queueId")
    if "brokerName" in kinds and "queueId" not in kinds:
        raise UsageError("the column brokerName needs the column queueId", hint="together they name a queue")
    if options.queue_selector in HASHES:
        given = f"queueSelector={options.queue_selector}"
        if "shardingKey" not in kinds:
            raise UsageError(f"{given} needs the column shardingKey")
        if "queueId" in kinds:
            raise UsageError(f"{given} chooses the queue, and so does the column queueId: leave one of them out")
