"""An archive as Spark reads it: the columns of the source, and the date of the store time by which files lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqreplay.source.archive_manifest import covering, load_manifest
from rmqreplay.source.offset_ranges import OffsetRange
from spark_tools.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARCHIVE_DDL = ddl(corrupt=True) + ", date date"


def archived_frame(spark: SparkSession, root: str, ranges: Sequence[OffsetRange]) -> DataFrame:
    """The archived messages of the ranges, and others of the same files. StorageError for a file that is missing."""
    paths = [os.path.join(root, file.path) for file in covering(load_manifest(root), list(ranges))]
    frame = spark.read.schema(ARCHIVE_DDL).option("basePath", root)
    return frame.parquet(*paths).drop("date") if paths else spark.createDataFrame([], ddl(corrupt=True))
