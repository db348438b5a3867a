"""A partition as Spark plans it, of a batch or of a stream."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from rmqreplay.source.offset_ranges import OffsetRange
from spark_tools.store_files import Part


@dataclass
class PlannedPart(InputPartition):
    """One partition: a piece of a store, or of a queue of a live cluster."""

    part: Part | OffsetRange

    def __init__(self, part: Part | OffsetRange):
        super().__init__(None)
        self.part = part
