"""The options of the ``rocketmq`` data source, of its reads, streams and writes, typed and checked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rmqproto.errors import UsageError
from rmqproto.filters.subscription import ALL
from rmqproto.java.java_numbers import INT_MAX
from rmqproto.times import STORED_WITH_ZONE, parse_duration, time_range
from rmqreplay.source.live import PLAIN, ClusterAccess, checked_sql92
from rmqreplay.source.pulling import READER_GROUP
from rmqreplay.source.queue_ranges import EARLIEST, LATEST, OffsetTable, WantedRanges, Where
from spark_tools.given_options import GivenOptions, json_of, local_path
from spark_tools.streaming.limits import TriggerLimits

READ_OPTIONS = (
    "path", "paths", "brokerName", "nameServer", "subscribe", "subscribePattern", "assign", "startingOffsets",
    "endingOffsets", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "splitSize",
    "mode", "tags", "sql92", "properties", "includeBody", "decompress", "verifyCrc", "includeInternalTopics",
    "transactionState", "onCorrupt", "pushFilters", "pullBatchSize", "pullTimeoutMs", "readTimeoutMs", "readFrom",
    "readerGroup", "accessKey", "secretKey", "tls", "tlsCa", "tlsCert", "tlsKey", "tlsInsecure", "addressMap",
    "table", "group", "ledger",
)  # fmt: skip
WRITE_OPTIONS = (
    "nameServer", "topic", "producerGroup", "sendTimeoutMs", "batchSize", "maxInFlight", "compressOver",
    "queueSelector", "maxRatePerSecond", "maxBytesPerSecond", "delivery", "onReject", "rejectPath", "accessKey",
    "secretKey", "tls", "tlsCa", "tlsCert", "tlsKey", "tlsInsecure", "addressMap", "checkpointLocation",
    "queryName",
)  # fmt: skip
STREAM_OPTIONS = (
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitGroup",
)  # fmt: skip
NOT_IN_STREAMS = {
    "path": "it reads a live cluster: give nameServer",
    "paths": "it reads a live cluster: give nameServer",
    "brokerName": "it reads a live cluster: give nameServer",
    "endingOffsets": "it has no end; Trigger.AvailableNow ends at what is there",
    "endingTimestamp": "it has no end; Trigger.AvailableNow ends at what is there",
    "endingOffsetsByTimestamp": "it has no end; Trigger.AvailableNow ends at what is there",
    "splitSize": "it is for store files",
    "mode": "it is for store files",
    "transactionState": "it is for store files",
    "onCorrupt": "it is for store files",
    "pushFilters": "Spark pushes no filters into streams",
    "table": "a table is read as a batch",
}
"""Options that have no meaning in a stream, and why."""
_FOR_WRITING = tuple(name for name in WRITE_OPTIONS if name not in READ_OPTIONS)
_FOR_READING = tuple(name for name in READ_OPTIONS + STREAM_OPTIONS if name not in WRITE_OPTIONS)
OF_TABLES = {
    "offsets": ("group",),
    "queues": ("subscribe",),
    "traces": ("subscribe", "startingTimestamp", "endingTimestamp"),
    "deadletters": ("group", "ledger", "startingTimestamp", "endingTimestamp"),
    "halves": (),
    "timers": (),
}
"""Table -> what chooses its rows."""
_NOT_OF_TABLES = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "minPartitions", "maxRecordsPerPartition", "mode", "tags", "sql92", "properties", "includeBody", "decompress",
    "verifyCrc", "includeInternalTopics", "transactionState", "onCorrupt", "pushFilters", "group", "ledger",
)  # fmt: skip
TRIGGER_DELAY_MS_DEFAULT = 15 * 60_000
"""As of Spark's Kafka source."""


def _option(name: str, read: Callable[..., Any], *rules: Any, **bounds: int) -> Any:
    """A field of its own option, read by that method of ``GivenOptions``. Its default is what is read of no options."""
    metadata = {"read": lambda given: read(given, name, *rules, **bounds)}
    return field(default=read(GivenOptions({}, ()), name, *rules, **bounds), metadata=metadata)


def _read_fields(kind: type[Any], given: GivenOptions) -> dict[str, Any]:
    """The fields that have an option of their own."""
    return {each.name: each.metadata["read"](given) for each in fields(kind) if "read" in each.metadata}


_flag, _number, _one_of, _ms = (
    GivenOptions.flag, GivenOptions.number, GivenOptions.one_of, GivenOptions.duration_ms,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(WantedRanges):
    """Options of a read; times are ms since the epoch, sizes bytes."""

    table: str | None = None
    """One of ``TABLES``; None reads messages."""
    groups: list[str] | None = None
    """Of a table: these groups only."""
    ledger: str | None = _option("ledger", GivenOptions.text)
    """Of dead letters: the directory of the redrives' ledgers."""
    paths: list[str] = field(default_factory=list)
    broker_names: list[str] = field(default_factory=list)
    name_server: str | None = None
    fail_on_data_loss: bool = _option("failOnDataLoss", _flag, True)
    min_partitions: int = _option("minPartitions", _number, 0)
    records_per_partition_max: int = _option("maxRecordsPerPartition", _number, 0)
    split_size_bytes: int = _option("splitSize", _number, 256 << 20, at_least=1)
    mode: str = _option("mode", _one_of, "auto", "scan", "index")
    tags: str = _option("tags", GivenOptions.text, ALL)
    sql92: str | None = None
    properties: str = _option("properties", _one_of, "map", "raw", "none")
    include_body: bool = _option("includeBody", _flag, True)
    decompress: bool = _option("decompress", _flag, True)
    verify_crc: bool = _option("verifyCrc", _flag, False)
    transaction_state: str = _option("transactionState", _one_of, "committed", "all")
    on_corrupt: str = _option("onCorrupt", _one_of, "fail", "skip", "column")
    push_filters: bool = _option("pushFilters", _flag, False)
    pull_batch_size: int = _option("pullBatchSize", _number, 256, at_least=1, at_most=INT_MAX)
    """256 are read twice as fast as 32 where a broker allows so many; others answer with what they allow."""
    pull_timeout_ms: int = _option("pullTimeoutMs", _ms, 10_000, at_least=1)
    read_timeout_ms: int = _option("readTimeoutMs", _ms, 120_000)
    """How long one pull of a task goes on trying while its broker is away."""
    read_from: str = _option("readFrom", _one_of, "master", "slave")
    reader_group: str = _option("readerGroup", GivenOptions.text, READER_GROUP)
    """In whose name messages are pulled; for ACL. It commits nothing."""
    access: ClusterAccess = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Options of a stream. ``commit_group`` gets the offsets that are read, for operators to see; None commits
    nothing."""

    read: ReadOptions
    limits: TriggerLimits
    commit_group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a batch write. With ``topic`` None each row names its own."""

    name_server: str
    topic: str | None = _option("topic", GivenOptions.text)
    producer_group: str = _option("producerGroup", GivenOptions.text, "CLIENT_INNER_PRODUCER")
    send_timeout_ms: int = _option("sendTimeoutMs", _ms, 3000, at_least=1)
    batch_size: int = _option("batchSize", _number, 128, at_least=1)
    in_flight_max: int = _option("maxInFlight", _number, 16, at_least=1)
    compress_over_bytes: int = _option("compressOver", _number, 0)
    queue_selector: str = _option("queueSelector", _one_of, "roundrobin", "source", "key", "javaHash")
    rate_max: float | None = None
    byte_rate_max: float | None = None
    on_reject: str = _option("onReject", _one_of, "fail", "file")
    reject_path: str | None = _option("rejectPath", GivenOptions.text)
    is_idempotent: bool = False
    checkpoint: str | None = _option("checkpointLocation", GivenOptions.text)
    """The checkpoint of the stream that is written."""
    access: ClusterAccess = PLAIN


def access_options(access: ClusterAccess) -> dict[str, str]:
    """The options for this access."""
    found: dict[str, str] = {}
    if access.credentials is not None:
        found |= {"accessKey": access.credentials.access_key, "secretKey": access.credentials.secret_key}
    if (files := access.tls) is not None:
        given = {"tlsCa": files.ca, "tlsCert": files.cert, "tlsKey": files.key}
        found |= {name: path for name, path in given.items() if path is not None}
        found |= {"tls": "true", "tlsInsecure": str(files.insecure).lower()}
    return found | ({"addressMap": access.address_map.text()} if access.address_map.rules else {})


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a batch read. UsageError for options that are unknown, contradictory or meaningless here."""
    stream = _given_of(given, STREAM_OPTIONS)
    if stream is not None:
        raise UsageError(f"option {stream} is for streams: spark.readStream", hint="a batch reads all that is there")
    return _read_options(_given_to_read(given, READ_OPTIONS), "earliest")


def parse_stream_options(given: Mapping[str, str]) -> StreamOptions:
    """The options of a stream. UsageError as of ``parse_read_options``."""
    other = _given_of(given, tuple(NOT_IN_STREAMS))
    if other is not None:
        raise UsageError(f"option {other} has no meaning in a stream: {NOT_IN_STREAMS[other]}")
    options = _given_to_read(given, READ_OPTIONS + STREAM_OPTIONS)
    delay = options.text("maxTriggerDelay")
    delay_ms = TRIGGER_DELAY_MS_DEFAULT if delay is None else parse_duration(delay)
    if delay_ms is None:
        raise UsageError(f"option maxTriggerDelay={delay} is not a duration", hint="for example 30s, 15m or 1h")
    limits = TriggerLimits(
        offsets_max=options.number("maxOffsetsPerTrigger", 0, at_least=1),
        bytes_max=options.number("maxBytesPerTrigger", 0, at_least=1),
        offsets_min=options.number("minOffsetsPerTrigger", 0),
        delay_ms=delay_ms,
    )
    if limits.offsets_max and limits.offsets_min > limits.offsets_max:
        raise UsageError(
            f"minOffsetsPerTrigger={limits.offsets_min} is more than maxOffsetsPerTrigger={limits.offsets_max}"
        )
    if delay is not None and not limits.offsets_min:
        raise UsageError("maxTriggerDelay needs minOffsetsPerTrigger: without it no batch waits")
    read = _read_options(options, "latest")
    return StreamOptions(read=read, limits=limits, commit_group=options.text("commitGroup"))


def parse_loaded_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of ``load``, which Spark calls for batches and for streams alike. UsageError for what is wrong for
    both."""
    try:
        return parse_read_options(given)
    except UsageError as error:
        try:
            return parse_stream_options(given).read
        except UsageError as as_stream:
            raise (error if _given_of(given, STREAM_OPTIONS) is None else as_stream) from None


def _given_to_read(given: Mapping[str, str], known: tuple[str, ...]) -> GivenOptions:
    other = _given_of(given, _FOR_WRITING)
    if other is not None:
        raise UsageError(f"option {other} is for writing", hint="subscribe names the topics that are read")
    return GivenOptions(given, known, STREAM_OPTIONS)


def _given_of(given: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The first of these options that is given; Spark passes names in lower case."""
    lower = {name.lower() for name in given}
    return next((name for name in names if name.lower() in lower), None)


def _read_options(options: GivenOptions, default_start: str) -> ReadOptions:
    # A stream that begins at an end misses nothing; a batch would read nothing.
    missing_time = ("latest", "error") if default_start == "latest" else ("error", "latest")
    listed = options.text("paths")  # of load([…])
    paths = [*options.names("path"), *(json_of("paths", listed, list[str]) if listed else ())]
    name_server = options.text("nameServer")
    if bool(paths) == (name_server is not None):
        raise UsageError(
            "exactly one of the options path (store files) and nameServer (a live cluster) is needed",
            hint="to write, name the topic by the option topic, and no path" if paths else None,
        )
    table = _table(options)
    topics, pattern = options.names("subscribe"), options.text("subscribePattern")
    assign = options.text("assign")
    if sum((bool(topics), pattern is not None, assign is not None)) > 1 or (
        name_server is not None and not topics and pattern is None and assign is None and table is None
    ):
        raise UsageError("exactly one of the options subscribe, subscribePattern and assign is needed")
    broker_names = options.names("brokerName")
    if len(broker_names) > len(paths):
        raise UsageError("brokerName names the brokers of the stores in path, in their order: it has more names")
    between = time_range(
        options.text("startingTimestamp"), options.text("endingTimestamp"), time.time_ns() // 1_000_000,
        "option startingTimestamp", "option endingTimestamp", spellings=STORED_WITH_ZONE,
    )  # fmt: skip
    read = _read_fields(ReadOptions, options)
    return ReadOptions(
        **read,
        table=table,
        groups=options.names("group") or None,
        paths=[*map(local_path, paths)],
        broker_names=broker_names,
        name_server=name_server,
        topics=topics or None,
        topic_pattern=_pattern(pattern),
        assigned=json_of("assign", assign, dict[str, dict[str, list[int]]]) if assign else None,
        start=_where(options, "starting", default_start, between.begin_ms),
        end=_where(options, "ending", "latest", between.end_ms),
        # A group without letters that late is no error.
        missing_timestamp="latest" if table else options.one_of("startingOffsetsByTimestampStrategy", *missing_time),
        sql92=checked_sql92(options.text("sql92")),
        include_internal_topics=table is not None or options.flag("includeInternalTopics", False),
        access=options.access(),
    )


def _table(options: GivenOptions) -> str | None:
    """The table; None if messages are read. UsageError for an unknown one, and for options that do not choose its
    rows."""
    table = options.text("table")
    if table is not None and table not in OF_TABLES:
        raise UsageError(f"option table={table} is none of {', '.join(OF_TABLES)}")
    unmeant: tuple[str, ...]
    if table is None:
        unmeant, why = ("group", "ledger"), "needs the option table"
    else:
        unmeant, why = tuple(set(_NOT_OF_TABLES) - set(OF_TABLES[table])), f"has no meaning with table={table}"
    given = next((name for name in unmeant if options.text(name) is not None), None)
    if given is not None:
        raise UsageError(f"option {given} {why}", hint=None if table is None else _chosen_by(OF_TABLES[table]))
    return table


def _chosen_by(names: tuple[str, ...]) -> str:
    return f"its rows are chosen by {', '.join(names)}" if names else "it has all its rows"


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    other = _given_of(given, _FOR_READING)
    if other is not None:
        raise UsageError(f"option {other} is for reading", hint="the option topic names what is written")
    options = GivenOptions(given, WRITE_OPTIONS)
    name_server = options.text("nameServer")
    if name_server is None:
        raise UsageError(
            "the option nameServer is needed to write",
            hint="INSERT INTO passes none of a table's options: write with df.write",
        )
    write = _read_fields(WriteOptions, options)
    is_idempotent = options.one_of("delivery", "at-least-once", "idempotent") == "idempotent"
    if is_idempotent and write["topic"] is None:
        raise UsageError("delivery=idempotent needs the option topic", hint="write one frame for each topic")
    if (write["on_reject"] == "file") != (write["reject_path"] is not None):
        raise UsageError("onReject=file and rejectPath belong together")
    return WriteOptions(
        **write,
        name_server=name_server,
        rate_max=options.number("maxRatePerSecond", 0) or None,
        byte_rate_max=options.number("maxBytesPerSecond", 0) or None,
        is_idempotent=is_idempotent,
        access=options.access(),
    )


def _where(options: GivenOptions, prefix: str, default: str, timestamp_ms: int | None) -> Where:
    names = (f"{prefix}Timestamp", f"{prefix}OffsetsByTimestamp", f"{prefix}Offsets")
    given = [name for name in names if options.text(name) is not None]
    if len(given) > 1:
        raise UsageError(f"the options {' and '.join(given)} exclude each other")
    if timestamp_ms is not None:
        return Where(timestamp_ms=timestamp_ms)
    by_timestamp = options.table(f"{prefix}OffsetsByTimestamp")
    if by_timestamp:
        _check_numbers(f"{prefix}OffsetsByTimestamp", by_timestamp, at_least=0)
        return Where(keyword=default, timestamps_ms=by_timestamp)
    value = options.text(f"{prefix}Offsets") or default
    if value.startswith("group:") and value != "group:":
        return Where(keyword="group", group=value[6:])
    if value.startswith("{"):
        table = json_of(f"{prefix}Offsets", value, OffsetTable)
        _check_numbers(f"{prefix}Offsets", table, at_least=EARLIEST if prefix == "starting" else LATEST)
        return Where(keyword=default, table=table)
    # A stream has both keywords, a batch the one that does not read nothing.
    keywords = ("earliest", "latest") if (prefix, default) == ("starting", "latest") else (default,)
    if value.lower() not in keywords:
        wanted = ", ".join(keywords)
        raise UsageError(f"option {prefix}Offsets={value} is neither {wanted}, group:<name> nor JSON")
    return Where(keyword=value.lower())


def _check_numbers(name: str, table: OffsetTable, *, at_least: int) -> None:
    """UsageError for a number that is no offset or time, and that would silently read everything or nothing."""
    for topic, brokers in table.items():
        for broker, ids in brokers.items():
            for queue_id, number in ids.items():
                if number < at_least:
                    raise UsageError(f"option {name} has {number} for {topic}/{broker}/{queue_id}: at least {at_least}")


def _pattern(text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise UsageError(f"option subscribePattern={text} is not a regular expression: {error}") from None
    return text
