"""A partition as Spark plans it, of a batch or of a stream."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark_tools.partitions import Part


@dataclass
class PlannedPart(InputPartition):
    """One partition: a piece of a store, or of a queue of a live cluster."""

    part: Part

    def __init__(self, part: Part):
        super().__init__(None)
        self.part = part
