"""The options of the ``rocketmq`` data source, of its reads, streams and writes, typed and checked."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import INT_MAX
from rmqproto.times import parse_duration, time_range
from rmqreplay.source.live import PLAIN, ClusterAccess, checked_sql92
from rmqreplay.source.pulling import READER_GROUP
from rmqreplay.source.queue_ranges import EARLIEST, LATEST, OffsetTable, WantedRanges, Where
from spark_tools.given_options import GivenOptions, json_of, local_path
from spark_tools.streaming.limits import TriggerLimits

SPLIT_SIZE_BYTES_DEFAULT = 256 << 20
PULL_BATCH_SIZE_DEFAULT = 256
"""Twice as fast as 32 where a broker allows so many; others answer with what they allow."""
PULL_TIMEOUT_MS_DEFAULT = 10_000
READ_TIMEOUT_MS_DEFAULT = 120_000
BATCH_SIZE_DEFAULT = 128
IN_FLIGHT_DEFAULT = 16

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(WantedRanges):
    """Options of a read; times are ms since the epoch, sizes bytes."""

    table: str | None = None
    """One of ``TABLES``; None reads messages."""
    groups: list[str] | None = None
    """Of a table: these groups only."""
    ledger: str | None = None
    """Of dead letters: the directory of the redrives' ledgers."""
    paths: list[str] = field(default_factory=list)
    broker_names: list[str] = field(default_factory=list)
    name_server: str | None = None
    min_partitions: int = 0
    records_per_partition_max: int = 0
    split_size_bytes: int = SPLIT_SIZE_BYTES_DEFAULT
    mode: str = "auto"
    tags: str = "*"
    sql92: str | None = None
    properties: str = "map"
    include_body: bool = True
    decompress: bool = True
    verify_crc: bool = False
    transaction_state: str = "committed"
    on_corrupt: str = "fail"
    push_filters: bool = False
    pull_batch_size: int = PULL_BATCH_SIZE_DEFAULT
    pull_timeout_ms: int = PULL_TIMEOUT_MS_DEFAULT
    read_timeout_ms: int = READ_TIMEOUT_MS_DEFAULT
    """How long one pull of a task goes on trying while its broker is away."""
    read_from: str = "master"
    reader_group: str = READER_GROUP
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
    topic: str | None = None
    producer_group: str = "CLIENT_INNER_PRODUCER"
    send_timeout_ms: int = 3000
    batch_size: int = BATCH_SIZE_DEFAULT
    in_flight_max: int = IN_FLIGHT_DEFAULT
    compress_over_bytes: int = 0
    queue_selector: str = "roundrobin"
    rate_max: float | None = None
    byte_rate_max: float | None = None
    on_reject: str = "fail"
    reject_path: str | None = None
    is_idempotent: bool = False
    checkpoint: str | None = None
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
        raise UsageError("exactly one of the options path (store files) and nameServer (a live cluster) is needed")
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
        "option startingTimestamp", "option endingTimestamp", needs_zone=True,
    )  # fmt: skip
    return ReadOptions(
        table=table,
        groups=options.names("group") or None,
        ledger=options.text("ledger"),
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
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        min_partitions=options.number("minPartitions", 0),
        records_per_partition_max=options.number("maxRecordsPerPartition", 0),
        split_size_bytes=options.number("splitSize", SPLIT_SIZE_BYTES_DEFAULT, at_least=1),
        mode=options.one_of("mode", "auto", "scan", "index"),
        tags=options.text("tags") or "*",
        sql92=checked_sql92(options.text("sql92")),
        properties=options.one_of("properties", "map", "raw", "none"),
        include_body=options.flag("includeBody", True),
        decompress=options.flag("decompress", True),
        verify_crc=options.flag("verifyCrc", False),
        include_internal_topics=table is not None or options.flag("includeInternalTopics", False),
        transaction_state=options.one_of("transactionState", "committed", "all"),
        on_corrupt=options.one_of("onCorrupt", "fail", "skip", "column"),
        push_filters=options.flag("pushFilters", False),
        pull_batch_size=options.number("pullBatchSize", PULL_BATCH_SIZE_DEFAULT, at_least=1, at_most=INT_MAX),
        pull_timeout_ms=options.duration_ms("pullTimeoutMs", PULL_TIMEOUT_MS_DEFAULT, at_least=1),
        read_timeout_ms=options.duration_ms("readTimeoutMs", READ_TIMEOUT_MS_DEFAULT),
        read_from=options.one_of("readFrom", "master", "slave"),
        reader_group=options.text("readerGroup") or READER_GROUP,
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
    topic = options.text("topic")
    is_idempotent = options.one_of("delivery", "at-least-once", "idempotent") == "idempotent"
    if is_idempotent and topic is None:
        raise UsageError("delivery=idempotent needs the option topic", hint="write one frame for each topic")
    rate, byte_rate = options.number("maxRatePerSecond", 0), options.number("maxBytesPerSecond", 0)
    on_reject = options.one_of("onReject", "fail", "file")
    if (on_reject == "file") != (options.text("rejectPath") is not None):
        raise UsageError("onReject=file and rejectPath belong together")
    return WriteOptions(
        name_server=name_server,
        topic=topic,
        producer_group=options.text("producerGroup") or "CLIENT_INNER_PRODUCER",
        send_timeout_ms=options.duration_ms("sendTimeoutMs", 3000, at_least=1),
        batch_size=options.number("batchSize", BATCH_SIZE_DEFAULT, at_least=1),
        in_flight_max=options.number("maxInFlight", IN_FLIGHT_DEFAULT, at_least=1),
        compress_over_bytes=options.number("compressOver", 0),
        queue_selector=options.one_of("queueSelector", "roundrobin", "source", "key", "javaHash"),
        rate_max=rate or None,
        byte_rate_max=byte_rate or None,
        on_reject=on_reject,
        reject_path=options.text("rejectPath"),
        is_idempotent=is_idempotent,
        checkpoint=options.text("checkpointLocation"),
        access=options.access(),
    )


def _where(options: GivenOptions, prefix: str, default: str, timestamp_ms: int | None) -> Where:
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
    if value not in keywords:
        wanted = ", ".join(keywords)
        raise UsageError(f"option {prefix}Offsets={value} is neither {wanted}, group:<name> nor JSON")
    return Where(keyword=value)


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
