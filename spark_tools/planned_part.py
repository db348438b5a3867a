"""A partition as Spark plans it, of a batch or of a stream."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark_tools.partitions import Part


@dataclass
class PlannedPart(InputPartition):
    """One partition: pieces of a store, or of queues of a live cluster."""

    parts: list[Part]

    def __init__(self, parts: list[Part]):
        super().__init__(None)
        self.parts = parts
