"""One partition, of a store or of a live queue, as record batches. Runs in Spark's tasks, of the data source and of
frames that need none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from rmqproto.errors import ProtocolError
from rmqproto.filters.sql92 import compile_sql92_for_records
from rmqreplay.source.offset_ranges import OffsetRange, queue_text
from rmqreplay.source.pulling import PullRules, pull_range
from spark_tools.arrow_records import BatchMaker, BatchOptions
from spark_tools.located import locate_untrusted, record_starts
from spark_tools.partitions import Part, cluster_of
from spark_tools.read_rules import ReadRules, RowFilter
from spark_tools.schema import columns, ddl
from spark_tools.source_options import ReadOptions
from spark_tools.spark_worker import hints_in_text, spare_modules, tell
from spark_tools.store_reader import read_part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCH_SIZE_BYTES = 4 << 20
"""Pull answers of many brokers have at most 32 messages. If each were a batch for Spark, the batches would cost more
than their content."""


@dataclass(frozen=True, slots=True)
class PartReader:
    """A step of a query: takes the numbers of parts, and yields their records."""

    parts: Sequence[Part]
    options: ReadOptions
    columns: list[str]
    row_filters: Sequence[RowFilter]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_any(self.parts[number], self.options, self.columns, self.row_filters)


def parts_frame(
    spark: SparkSession,
    parts: Sequence[Part],
    options: ReadOptions,
    filters: Sequence[RowFilter] = (),
    *,
    corrupt: bool,
) -> DataFrame:
    """The records of the parts, each part a task. ``corrupt``: with that column, by which damaged ones pass. A data
    source written in Python starts a process to look it up, one to create it, one to plan each read and write, and one
    to commit: half a second of CPU each. Here the tasks' workers read."""
    names = [column.name for column in columns(corrupt=corrupt)]
    numbers = spark.range(0, len(parts), 1, max(len(parts), 1))
    return numbers.mapInArrow(PartReader(parts, options, names, filters), ddl(corrupt=corrupt))


def read_all(
    parts: Sequence[Part], options: ReadOptions, columns: list[str], row_filters: Sequence[RowFilter] = ()
) -> Iterator[pa.RecordBatch]:
    """The parts of a task, one after another."""
    return chain.from_iterable(read_any(each, options, columns, row_filters) for each in parts)


def read_any(
    part: Part, options: ReadOptions, columns: list[str], row_filters: Sequence[RowFilter] = ()
) -> Iterator[pa.RecordBatch]:
    broker_name = part.queue.broker_name if isinstance(part, OffsetRange) else part.broker_name
    maker = BatchMaker(BatchOptions(
        columns=columns, broker_name=broker_name, properties=options.properties, decompress=options.decompress,
        verify_crc=options.verify_crc,
    ))  # fmt: skip
    is_live = isinstance(part, OffsetRange)  # then the broker applies sql92
    accepts = None if options.sql92 is None or is_live else compile_sql92_for_records(options.sql92)
    rules = ReadRules(
        maker, options.tags, options.transaction_state, options.on_corrupt, row_filters, accepts,
        fail_on_data_loss=options.fail_on_data_loss,
    )  # fmt: skip
    batches = _read_live(part, rules, options) if isinstance(part, OffsetRange) else read_part(part, rules)
    with hints_in_text():
        yield from batches
    spare_modules()  # not before: the first read makes pyarrow load pandas
    for place in rules.skipped:
        tell(f"passed over log offset {place}")
    for path in rules.gone:
        tell(f"{path} is gone, and the messages in it")


def _read_live(part: OffsetRange, rules: ReadRules, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    pulling = PullRules(
        batch_size=options.pull_batch_size,
        timeout_s=options.pull_timeout_ms / 1000,
        read_timeout_s=options.read_timeout_ms / 1000,
        group=options.reader_group,
        expression=options.sql92 or options.tags,
        expression_type="SQL92" if options.sql92 else "TAG",
        fail_on_data_loss=options.fail_on_data_loss,
    )

    def tell(gap: OffsetRange) -> None:
        rules.gone[f"{queue_text(gap.queue)} from {gap.start} to {gap.end}"] = None

    with cluster_of(options) as cluster:
        waiting: list[bytes] = []
        size_bytes = 0
        for body in pull_range(cluster, part, pulling, tell):
            waiting.append(body)
            size_bytes += len(body)
            if size_bytes >= BATCH_SIZE_BYTES:
                yield from _batch(b"".join(waiting), part, rules)
                waiting, size_bytes = [], 0
        yield from _batch(b"".join(waiting), part, rules)


def _batch(body: bytes, part: OffsetRange, rules: ReadRules) -> Iterator[pa.RecordBatch]:
    data = np.frombuffer(body, np.uint8)
    starts, end = record_starts(data)
    if end != len(data):
        raise ProtocolError(f"a pull answer of {queue_text(part.queue)} holds no record at byte {end}")
    located = locate_untrusted(data, starts)
    offsets = located.heads["queueOffset"]
    batch = rules.batch(located.select((offsets >= part.start) & (offsets < part.end)))
    if batch is not None:
        yield batch
