"""The records of store files and queues as a frame, without a data source: its tasks' workers read them. A data
source written in Python starts a process to look it up, one to create it, one to plan each read and write, and
one to commit: half a second of CPU each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqreplay.source.offset_ranges import OffsetRange
from spark_tools.part_reader import PartReader
from spark_tools.row_filter import RowFilter
from spark_tools.schema import columns, ddl
from spark_tools.source_options import ReadOptions
from spark_tools.store_files import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def parts_frame(
    spark: SparkSession,
    parts: Sequence[Part | OffsetRange],
    options: ReadOptions,
    filters: Sequence[RowFilter] = (),
    *,
    corrupt: bool,
) -> DataFrame:
    """The records of the parts, each part a task. ``corrupt``: with that column, by which damaged ones pass."""
    names = [column.name for column in columns(corrupt=corrupt)]
    numbers = spark.range(0, len(parts), 1, max(len(parts), 1))
    return numbers.mapInArrow(PartReader(parts, options, names, filters), ddl(corrupt=corrupt))
