"""One batch of an archive as Spark jobs: read its ranges, write them by topic and date, count what was written, and
commit. Until the commit nothing of it counts, so that a batch may end anywhere and be done again."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError
from rmqreplay.source.archive_manifest import (
    STAGING,
    ArchivedBatch,
    ArchivedFile,
    ArchivedRange,
    Manifest,
    commit_batch,
    file_stem,
    remove_staging,
)
from rmqreplay.source.offset_ranges import OffsetRange, queue_text
from rmqserver.store.disk.disk import OsDisk, storage_error
from spark_tools.part_reader import parts_frame
from spark_tools.partitions import cut_range
from spark_tools.replay.spark_engine import ARCHIVE_DDL, run_spark, told_plain
from spark_tools.source_options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_QUEUE = ("topic", "brokerName", "queueId")
_DAY = "date_from_unix_date(cast(unix_micros(storeTimestamp) div 86400000000 as int))"
"""The day of UTC, whatever the session's time zone is."""


def archive_batch(
    spark: SparkSession, manifest: Manifest, options: ReadOptions, ranges: Sequence[OffsetRange]
) -> ArchivedBatch:
    """The ranges as the manifest's next batch, committed. Errors leave the archive as it was, and no half-written files
    on a disk that may be full."""
    # Of its own: the Spark of a run that was killed may go on for a while, and end its job.
    staging = os.path.join(manifest.root, STAGING, secrets.token_hex(8))
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # the default is read by fewer
    writing = _by_topic_and_date(spark, options, ranges).write.mode("overwrite").partitionBy("topic", "date")
    try:
        run_spark(lambda: writing.parquet(staging, compression="zstd"))
        archived = _counted(spark, staging, ranges)
        batch = ArchivedBatch(
            number=manifest.next_number, archived_ms=time.time_ns() // 1_000_000, ranges=archived,
            files=_moved(manifest, staging),
        )  # fmt: skip
        commit_batch(manifest, batch)
    finally:
        remove_staging(manifest)
    return batch


def _by_topic_and_date(spark: SparkSession, options: ReadOptions, ranges: Sequence[OffsetRange]) -> DataFrame:
    from pyspark.sql import functions as f

    parts = [piece for each in ranges for piece in cut_range(each, options, len(ranges))]
    frame = told_plain(parts_frame(spark, parts, options, corrupt=True)).withColumn("date", f.expr(_DAY))
    # Few files, of one topic and date each, and more of them where there is much.
    return frame.hint("rebalance", "topic", "date").sortWithinPartitions("topic", "date", *_QUEUE[1:], "queueOffset")


def _counted(spark: SparkSession, staging: str, ranges: Sequence[OffsetRange]) -> list[ArchivedRange]:
    """What was written of each range. StorageError if it is anything but messages of the ranges, each once."""
    from pyspark.sql import functions as f

    written = spark.read.schema(ARCHIVE_DDL).parquet(staging).groupBy(*_QUEUE).agg(
        f.count("*").alias("messages"), f.count_distinct("queueOffset").alias("offsets"),
        f.min("queueOffset").alias("first"), f.max("queueOffset").alias("last"),
        f.expr("unix_millis(min(storeTimestamp))").alias("oldest_ms"),
        f.expr("unix_millis(max(storeTimestamp))").alias("newest_ms"),
    )  # fmt: skip
    found: dict[MessageQueue, Row] = {
        MessageQueue(row["topic"], row["brokerName"], row["queueId"]): row for row in run_spark(written.collect)
    }
    archived = []
    for each in ranges:
        row, text = found.pop(each.queue, None), queue_text(each.queue)
        if row is None:
            archived.append(ArchivedRange(queue=text, start=each.start, end=each.end, messages=0))
            continue
        if row["messages"] != row["offsets"] or row["first"] < each.start or row["last"] >= each.end:
            raise StorageError(
                f"{staging}: of {text} from {each.start} to {each.end}, rows were written from {row['first']} to"
                f" {row['last']}, {row['messages']} of {row['offsets']} offsets"
            )
        archived.append(ArchivedRange(
            queue=text, start=each.start, end=each.end, messages=row["messages"], oldest_ms=row["oldest_ms"],
            newest_ms=row["newest_ms"],
        ))  # fmt: skip
    if found:
        raise StorageError(f"{staging} has messages of {', '.join(map(queue_text, sorted(found)))}, not asked for")
    return archived


def _moved(manifest: Manifest, staging: str) -> list[ArchivedFile]:
    """The staged files at their places, durably."""
    disk, files = OsDisk(), list[ArchivedFile]()
    try:
        for parent, directories, names in os.walk(staging):
            directories[:] = sorted(each for each in directories if each[0] != "_")  # those of tasks that were given up
            directory = os.path.relpath(parent, staging)
            for name in sorted(each for each in names if each.endswith(".parquet") and each[0] not in "._"):
                path = os.path.join(directory, f"{file_stem(manifest.next_number)}{len(files)}.parquet")
                os.makedirs(os.path.join(manifest.root, directory), exist_ok=True)
                source = os.path.join(parent, name)
                with open(source, "rb") as file:
                    os.fsync(file.fileno())
                    size_bytes = os.fstat(file.fileno()).st_size
                disk.rename(source, os.path.join(manifest.root, path))
                disk.sync_directory(os.path.join(manifest.root, directory))
                topic = unquote(directory.partition(os.sep)[0].removeprefix("topic="))
                files.append(ArchivedFile(path=path, topic=topic, size_bytes=size_bytes))
    except OSError as error:
        raise storage_error(error, "write", manifest.root) from None
    return files
