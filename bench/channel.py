"""The most that Spark's channel to a Python source can carry: one ready Arrow batch, sent repeatedly from memory. A
source that must make its batches cannot be faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_tools.part_reader import read_any
from spark_tools.partitions import plan_read
from spark_tools.schema import ddl
from spark_tools.source_options import parse_read_options

ROWS = 2000
"""Rows of the ready batch, which then has the size of one of ours."""


@dataclass
class Share(InputPartition):
    ready: bytes
    row_count: int


class ChannelSource(DataSource):
    """Options: those of a read, whose first rows are sent; ``rows``, how many in all; ``tasks``."""

    def __init__(self, options: Mapping[str, str]):
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        return "bench_channel"

    def schema(self) -> str:
        return ddl()

    def reader(self, schema: StructType) -> ChannelReader:
        options = {name.lower(): value for name, value in self.options.items()}
        return ChannelReader(options, [each.name for each in schema.fields])


class ChannelReader(DataSourceReader):
    def __init__(self, options: dict[str, str], columns: list[str]):
        self.columns = columns
        self.row_count, self.tasks = int(options.pop("rows")), int(options.pop("tasks"))
        self.read_options = options

    def partitions(self) -> list[InputPartition]:
        options = parse_read_options(self.read_options)
        ready = next(read_any(plan_read(options).parts[0], options, self.columns)).slice(0, ROWS)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ready.schema) as stream:
            stream.write_batch(ready)
        return [Share(sink.getvalue().to_pybytes(), self.row_count // self.tasks) for _ in range(self.tasks)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        ready = pa.ipc.open_stream(partition.ready).read_next_batch()
        for _ in range(-(-partition.row_count // ready.num_rows)):
            yield ready
