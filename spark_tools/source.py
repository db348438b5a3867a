"""The ``rocketmq`` data source for Spark. Only this module, the tables' reader and the sinks derive from pyspark's
classes, so that all other code can be imported and tested without pyspark.

Spark plans in one process and reads in others. The reader is pickled with every task, so it holds only plain data.
In a cluster "latest" and times are resolved for each query; in store files once, when ``load`` makes the source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from rmqproto.errors import UsageError
from rmqreplay.source.offset_ranges import queue_text
from spark_tools.given_options import as_comment, is_of_table, plain_options, with_options_of_table
from spark_tools.partitions import Planned, plan_read, task_parts
from spark_tools.planned_part import PlannedPart
from spark_tools.schema import TABLES, check_columns, check_table_columns, ddl
from spark_tools.source_options import (
    ReadOptions,
    parse_loaded_options,
    parse_read_options,
    parse_write_options,
)
from spark_tools.spark_worker import hints_in_text, spare_modules, tell

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_tools.read_rules import RowFilter
    from spark_tools.streaming.reader import RocketMQStreamReader
    from spark_tools.tables.table_reader import TableReader
    from spark_tools.writing.writer import RocketMQStreamWriter, RocketMQWriter


_READ_MARKS = frozenset({"path", "paths", "subscribe", "subscribepattern", "assign", "table"})
"""Options that mark a read."""


class RocketMQDataSource(DataSource):
    """``spark.read.format("rocketmq")`` and ``df.write.format("rocketmq")``; see docs/spark.md for the options."""

    def __init__(self, options: Mapping[str, str]):
        super().__init__(dict(options))
        spare_modules()
        self._given = plain_options(options)
        self._is_of_table = is_of_table(options)
        names = {name.lower() for name in self._given}
        with hints_in_text():
            is_table = bool(names & _READ_MARKS) and parse_loaded_options(self._given).table is not None
            # There is one instance per load(), and its pickle serves every later query. Store files are planned here,
            # once; of a cluster nobody knows yet whether a batch or a stream is meant.
            is_planned = not names.isdisjoint(("path", "paths")) and not is_table
            self._planned = plan_read(parse_read_options(self._given)) if is_planned else None

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        with hints_in_text():
            options = parse_loaded_options(self._given)
            columns = (
                TABLES[options.table]
                if options.table is not None
                else ddl(
                    properties=options.properties,
                    include_body=options.include_body,
                    corrupt=options.on_corrupt == "column",
                )
            )
            if not self._is_of_table:
                return columns
            first, comma, rest = columns.partition(",")
            return f"{first} COMMENT '{as_comment(self._given)}'{comma}{rest}"

    def reader(self, schema: StructType) -> RocketMQReader | TableReader:
        with hints_in_text():
            options = parse_read_options(self._given_with_table(schema))
            if options.table is not None:
                from spark_tools.tables.table_reader import TableReader

                return TableReader(options, check_table_columns(options.table, _typed_columns(schema)))
            columns = _columns(schema, options)
            kind = FilteringReader if options.push_filters and _is_asked_to_push() else RocketMQReader
            return kind(options, columns, self._planned or plan_read(options))

    def streamReader(self, schema: StructType) -> RocketMQStreamReader:
        from spark_tools.streaming.reader import RocketMQStreamReader

        return RocketMQStreamReader(self._given_with_table(schema), _typed_columns(schema))

    def _given_with_table(self, schema: StructType) -> dict[str, str]:
        """The options of a query, which may be of a table of the catalog."""
        with hints_in_text():
            return with_options_of_table(self._given, (each.metadata.get("comment") for each in schema.fields))

    def writer(self, schema: StructType, overwrite: bool) -> RocketMQWriter:
        from spark_tools.writing.writer import RocketMQWriter

        with hints_in_text():
            if overwrite:
                raise UsageError("a topic cannot be overwritten", hint='write with .mode("append")')
            return RocketMQWriter(parse_write_options(self._given), _typed_columns(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> RocketMQStreamWriter:
        from spark_tools.writing.writer import RocketMQStreamWriter

        with hints_in_text():
            if overwrite:
                raise UsageError("a topic cannot be overwritten", hint='write with .outputMode("append")')
            return RocketMQStreamWriter(parse_write_options(self._given), _typed_columns(schema))


def _typed_columns(schema: StructType) -> list[tuple[str, str]]:
    return [(each.name, each.dataType.simpleString()) for each in schema.fields]


def _columns(schema: StructType, options: ReadOptions) -> list[str]:
    return check_columns(
        _typed_columns(schema),
        properties=options.properties,
        corrupt=options.on_corrupt == "column",
    )


class RocketMQReader(DataSourceReader):
    """Reads the planned parts. Nothing stays open between calls."""

    def __init__(self, options: ReadOptions, columns: list[str], planned: Planned):
        self._options = options
        self._columns = columns
        self._planned = planned
        self._row_filters: list[RowFilter] = []

    def partitions(self) -> list[InputPartition]:
        spare_modules()
        gone = [f"{queue_text(gap.queue)}: part of {gap.start} to {gap.end} is gone" for gap in self._planned.gaps]
        for text in [*gone, *self._planned.not_searched]:
            tell(text)
        return [PlannedPart(parts) for parts in task_parts(self._planned.parts, self._options)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The record batches of a partition. Spark passes an empty plan as one partition of its own: None, and from 4.3
        on an InputPartition of None."""
        if not isinstance(partition, PlannedPart):
            return iter(())
        from spark_tools.part_reader import read_all

        return read_all(partition.parts, self._options, self._columns, self._row_filters)


_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program in which Spark plans a query whose filters it pushes down."""


def _is_asked_to_push() -> bool:
    """Whether this process plans a query with filters that Spark pushes down: only there is overriding ``pushFilters``
    no error, unless ``spark.sql.python.filterPushdown.enabled`` is on, of which a source is told nothing."""
    main = sys.modules["__main__"].__spec__
    return _PUSHING_WORKER in sys.modules or (main is not None and main.name == _PUSHING_WORKER)


class FilteringReader(RocketMQReader):
    """Prunes parts and rows by the filters that Spark pushes down. Spark (4.3) plans other queries of the same frame by
    what was planned here, whatever their filters are; so nobody gets it without asking."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        from spark_tools.pushed_filters import keep_range, row_filters

        self._planned.parts = [kept for part in self._planned.parts if (kept := keep_range(part, filters)) is not None]
        self._row_filters = row_filters(filters)
        yield from filters  # so that Spark checks them again, which costs next to nothing
