"""The most that Spark's channel to a Python source can carry: one ready Arrow batch, sent repeatedly. A source that
must make its batches cannot be faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rmqreplay.source.offset_ranges import OffsetRange
from spark_tools.part_reader import read_any
from spark_tools.schema import NAMES, ddl
from spark_tools.source import plan_read
from spark_tools.source_options import ReadOptions, parse_read_options
from spark_tools.store_files import Part


@dataclass
class Share(InputPartition):
    part: Part | OffsetRange
    row_count: int


class ChannelSource(DataSource):
    """Options: ``path``, a store; ``count``, how many rows to send in all."""

    def __init__(self, options: Mapping[str, str]):
        super().__init__(dict(options))
        self.read_options = parse_read_options({"path": options["path"]})
        self.row_count = int(options["count"])

    @classmethod
    def name(cls) -> str:
        return "bench_channel"

    def schema(self) -> str:
        return ddl()

    def reader(self, schema: object) -> ChannelReader:
        return ChannelReader(self.read_options, self.row_count)


class ChannelReader(DataSourceReader):
    def __init__(self, options: ReadOptions, row_count: int):
        self.options, self.row_count = options, row_count

    def partitions(self) -> list[InputPartition]:
        parts = plan_read(self.options).parts
        return [Share(part, self.row_count // len(parts)) for part in parts]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        columns = [name for name in NAMES if name != "corrupt"]
        ready = next(read_any(partition.part, self.options, columns), None)
        assert ready is not None, "a part without a record"
        for _ in range(-(-partition.row_count // ready.num_rows)):
            yield ready
